"""The second job of a batch, for all outputs at once, on the driver; its tasks are in `folding.py` and `tasks.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from latecomer.spark.base import Buckets, Runner, Shared
from latecomer.store.store import Store
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.folding import FiringPlan, FoldTask, fold_split
from latecomer.windowing.firing.output import Met, OutputLogic, Prepared, timeline
from latecomer.windowing.firing.tasks import ROWS_PER_BUCKET, BucketTask, bucket_count, merge_bucket
from latecomer.windowing.spark_columns import computed


class FiringJob:
    """Computes what a batch publishes, in files that no reader sees yet."""

    def __init__(self, runner: Runner, store: Store) -> None:
        self.runner, self.store = runner, store
        self.rows_per_bucket = ROWS_PER_BUCKET
        self._plans: dict[tuple[str, ...], tuple[Mapping[str, OutputLogic], Shared[FiringPlan]]] = {}

    def run(self, batch: Batch, outputs: Sequence[OutputLogic]) -> list[Prepared]:
        """What each output will publish."""
        met = {logic.name: logic.met(batch) for logic in outputs}
        possible = {logic.name: logic.task(batch, met[logic.name]) for logic in outputs}
        tasks = {name: task for name, task in possible.items() if task is not None}
        if not tasks:
            return [Prepared() for _ in outputs]
        logics = {logic.name: logic for logic in outputs}
        count = self._buckets(batch, [logics[name] for name in tasks], met)
        plan = self._plan(logics)
        # An output that publishes empty panes has all keys in the first bucket.
        spread = {name: task for name, task in tasks.items() if not logics[name].output.emit_empty}
        buckets = [BucketTask(nth, count, spread if nth else tasks) for nth in range(count)]
        folds = self._folds(batch, [logics[name] for name in tasks], count)
        done = self.runner.run(
            f"batch {batch.number} · windows",
            partial(fold_split, plan),
            folds,
            Buckets(partial(merge_bucket, plan), buckets),
        )
        return [
            logic.prepared(
                batch,
                met[logic.name],
                [made[logic.name] for made in done.buckets if logic.name in made],
                [aside[logic.name] for aside in done.tasks if logic.name in aside],
            )
            if logic.name in tasks
            else Prepared()
            for logic in outputs
        ]

    @contextmanager
    def derived(self, batch: Batch, outputs: Sequence[OutputLogic]) -> Iterator[Batch]:
        """The batch with the columns that only Spark computes for these outputs."""
        if batch.logged is None:
            yield batch
            return
        wanted, store = [logic.output for logic in outputs], self.store
        with computed(batch.logged, wanted, store.layout, self.runner, store.root) as logged:
            yield replace(batch, logged=logged)

    def _buckets(self, batch: Batch, outputs: Sequence[OutputLogic], met: Mapping[str, Met]) -> int:
        """How many buckets there are for the events and the open states."""
        if not any(logic.output.by and not logic.output.emit_empty for logic in outputs):
            return 1
        rows = batch.logged.rows if batch.logged is not None else 0
        rows += sum(file.rows for logic in outputs for file in met[logic.name].files)
        return bucket_count(rows, self.runner.cores, self.rows_per_bucket)

    def _folds(self, batch: Batch, outputs: Sequence[OutputLogic], count: int) -> list[FoldTask]:
        if batch.logged is None:
            return []
        folders = {logic.name: logic.folders_aside(batch) for logic in outputs}
        buckets = {logic.name: 1 if logic.output.emit_empty else count for logic in outputs}
        behind = batch.section.fires_at if batch.behind else None
        names = [logic.name for logic in outputs]
        judged_by = timeline(batch, any(logic.output.fires_within for logic in outputs))
        return [
            FoldTask([split], judged_by, names, buckets, folders, behind)
            for split in batch.logged.splits
            if split.files
        ]

    def _plan(self, logics: Mapping[str, OutputLogic]) -> Shared[FiringPlan]:
        """What tasks need to know about the outputs; kept until an output changes."""
        names = tuple(logics)
        known = self._plans.get(names)
        if known is None or any(known[0][name] is not logic for name, logic in logics.items()):
            outputs = {name: logic.output.without_sinks() for name, logic in logics.items()}
            known = (
                dict(logics),
                Shared(FiringPlan(self.store.layout.portable, outputs, self.store.measures())),
            )
            self._plans[names] = known
        return known[1]
