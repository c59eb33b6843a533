"""The second job of a batch, for all outputs at once, on the driver; its tasks are in `folding.py` and `tasks.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from latecomer.spark.base import Buckets, InProcess, Runner, Shared
from latecomer.spark.base import Made as Done
from latecomer.store.store import Store
from latecomer.windowing.firing.folding import FiringPlan, FoldTask, fold_split
from latecomer.windowing.firing.output import PANES, Batch, OutputLogic, Prepared
from latecomer.windowing.firing.tasks import (
    ROWS_PER_BUCKET,
    BucketTask,
    OutputTask,
    bucket_count,
    merge_bucket,
)
from latecomer.windowing.spark_columns import computed


class FiringJob:
    """Computes what a batch publishes, in files that no reader sees yet."""

    def __init__(self, runner: Runner, store: Store) -> None:
        self.runner, self.store = runner, store
        self._plans: dict[tuple[str, ...], tuple[Mapping[str, OutputLogic], Shared[FiringPlan]]] = {}

    @contextmanager
    def derived(self, batch: Batch, outputs: Sequence[OutputLogic]) -> Iterator[Batch]:
        """The batch with the columns that only Spark computes for these outputs."""
        if batch.logged is None:
            yield batch
            return
        wanted, store = [logic.output for logic in outputs], self.store
        with computed(batch.logged, wanted, store.layout, self.runner, store.root) as logged:
            yield replace(batch, logged=logged)

    def run(self, batch: Batch, outputs: Sequence[OutputLogic]) -> list[Prepared]:
        """What each output will publish."""
        met = {logic.name: logic.met(batch) for logic in outputs}
        possible = {logic.name: logic.task(batch, met[logic.name]) for logic in outputs}
        tasks = {name: task for name, task in possible.items() if task is not None}
        if not tasks:
            return [Prepared() for _ in outputs]
        rows = 0 if batch.logged is None else batch.logged.rows
        rows += sum(file.rows for name in tasks for file in met[name])
        what = f"batch {batch.number} · windows"
        done = self._done(self.runner, what, batch, outputs, tasks, rows)
        made = [made for each in (done.tasks, done.buckets) for made in each]
        return [
            Prepared.joined(batch, met[logic.name], [each[logic.name] for each in made if logic.name in each])
            if logic.name in tasks
            else Prepared()
            for logic in outputs
        ]

    def would_publish(self, batch: Batch, outputs: Sequence[OutputLogic]) -> bool:
        """Whether a batch without data would publish anything. Where files' statistics leave that open, the batch is
        tried, without folders to write to: if there are few rows, in this process."""
        if any(logic.surely_publishes(batch.section) for logic in outputs):
            return True
        some = [logic for logic in outputs if logic.may_publish(batch)]
        met = {logic.name: logic.met(batch) for logic in some}
        possible = {logic.name: logic.task(batch, met[logic.name]) for logic in some}
        tasks = {name: replace(task, folders={}) for name, task in possible.items() if task is not None}
        read = [file for logic in some for file in (*met[logic.name], *logic.closing(batch))]
        rows = sum(file.rows for file in read)
        runner = InProcess(self.runner.spark) if rows <= ROWS_PER_BUCKET else self.runner
        done = self._done(runner, "silence · triggers", batch, some, tasks, rows)
        return any(lane in made.files for each in done.buckets for made in each.values() for lane in PANES)

    def _done(
        self,
        runner: Runner,
        what: str,
        batch: Batch,
        outputs: Sequence[OutputLogic],
        tasks: Mapping[str, OutputTask],
        rows: int,
    ) -> Done:
        """The results of tasks that fold the batch's events, and of those that merge a bucket of keys. There are
        buckets for so many rows."""
        logics = {logic.name: logic for logic in outputs}
        # An output that publishes empty panes has all keys in the first bucket.
        spread = {name: task for name, task in tasks.items() if not logics[name].output.emit_empty}
        keyed = any(logics[name].output.by for name in spread)
        count = bucket_count(rows, runner.cores) if keyed else 1
        plan = self._plan(logics)
        return runner.run(
            what,
            partial(fold_split, plan),
            self._folds(batch, [logics[name] for name in tasks], count),
            Buckets(
                partial(merge_bucket, plan),
                [BucketTask(nth, count, spread if nth else tasks) for nth in range(count)],
            ),
        )

    def _folds(self, batch: Batch, outputs: Sequence[OutputLogic], count: int) -> list[FoldTask]:
        if batch.logged is None:
            return []
        folders = {logic.name: logic.folders_aside(batch) for logic in outputs}
        buckets = {logic.name: 1 if logic.output.emit_empty else count for logic in outputs}
        behind = batch.section.fires_at if batch.behind else None
        return [
            FoldTask([split], batch.section.watermarks, buckets, folders, behind)
            for split in batch.logged.splits
            if split.files
        ]

    def _plan(self, logics: Mapping[str, OutputLogic]) -> Shared[FiringPlan]:
        """What tasks need to know about the outputs; kept until an output changes."""
        names = tuple(logics)
        known = self._plans.get(names)
        if known is None or any(known[0][name] is not logic for name, logic in logics.items()):
            outputs = {name: logic.output.without_sinks() for name, logic in logics.items()}
            plan = FiringPlan(self.store.layout.portable, outputs, self.store.measures())
            known = self._plans[names] = (dict(logics), Shared(plan))
        return known[1]
