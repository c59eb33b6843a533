"""The columns of a pipeline, source by source, and the sources that steps may name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from latecomer.config.all_columns import SOURCE, Columns, merged
from latecomer.config.load import check_against
from latecomer.config.models import Pipeline
from latecomer.errors import Problem, did_you_mean
from latecomer.model.durations import to_moment
from latecomer.model.oracle.arrivals import Arrival, Partitions
from latecomer.model.sources import split_partition
from latecomer.testing.rows import Row, SourceShape, inferred
from latecomer.testing.scenario import Batch, Step, sourced_rows
from latecomer.testing.times import Times


@dataclass(frozen=True)
class Shape:
    """What the oracle reads of a pipeline's rows, and how files have them."""

    pipeline: Pipeline
    columns: Columns
    times: Times = field(default_factory=Times)

    @cached_property
    def sources(self) -> dict[str, SourceShape]:
        """By name; a single source has the name ""."""
        return {
            name: SourceShape(view, self.columns.read_from(name), self.times, name)
            for name, view in self.pipeline.views.items()
        }

    @property
    def given(self) -> list[str]:
        """The columns that a row has beside its times."""
        every = dict.fromkeys(name for each in self.sources.values() for name in each.given)
        return [*([SOURCE] if self.pipeline.sources else []), *every]

    def arrival(self, source: str, row: Row) -> Arrival:
        """A row as the oracle reads it. With several sources, it has the columns of all of them."""
        arrival = self.sources[source].arrival(row)
        if not source:
            return arrival
        arrived = {each.arrival_column: to_moment(row.arrival_time) for each in self.sources.values()}
        return replace(arrival, payload={**dict.fromkeys(self.columns), **arrived, **arrival.payload})

    def placed(self, folder: str) -> Pipeline:
        """The pipeline over files and a store in a folder of their own, without its sinks."""
        sources = {name: each.placed() for name, each in self.sources.items()}
        changed = {"base": folder, "store": "store", "columns": {}, "source": sources.pop("", None)}
        changed["sources"] = {
            name: {**each, "zone": self.pipeline.sources[name].zone, "unit": self.pipeline.sources[name].unit}
            for name, each in sources.items()
        }
        return Pipeline.model_validate({**dict(self.pipeline.without_sinks()), **changed})


def shape_of(
    pipeline: Pipeline,
    steps: Sequence[Step],
    times: Times,
    columns_of: Callable[[str, Pipeline], Mapping[str, str] | None],
    stated: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Shape:
    """The shape of a pipeline under these steps.

    `columns_of` returns the columns of a source, by its name and its view of the pipeline. Where it returns None, they
    are `stated` or inferred from the rows. The columns of several sources have to fit together; `file` is the pipeline
    file, for the error if they do not.
    """
    rows, columns = sourced_rows(steps), dict[str, Mapping[str, str]]()
    for name, view in pipeline.views.items():
        event = view.event
        of_events = (event.time, view.order_by, view.partition_column, *event.id_columns)
        # A column that no row has is text, and null everywhere. Stated columns come last and win.
        text_columns = {column: "string" for column in of_events if column and column != SOURCE}
        inferred_columns = {
            **text_columns,
            **inferred(row for source, row in rows if source == name),
            **(stated or {}),
        }
        columns[name] = columns_of(name, view) or inferred_columns
    if not pipeline.sources:
        return Shape(pipeline, Columns(columns[""]), times)
    together = merged(columns)
    check_against(pipeline, together, file)
    return Shape(pipeline, together, times)


def mistaken_sources(pipeline: Pipeline, steps: Sequence[Step]) -> Iterator[tuple[int, Problem]]:
    """The steps that name an unknown source, or a partition of one: their number, and the problem."""
    for number, step in enumerate(steps):
        if isinstance(step, Batch):
            wrong = (source_problem(pipeline, each) for each in dict.fromkeys(step.sources or [step.source]))
            problem = next((each for each in wrong if each is not None), None)
        elif isinstance(step, Partitions) and pipeline.sources:
            problem = _of_partitions(pipeline, step)
        else:
            continue
        if problem is not None:
            yield number, problem


def source_problem(pipeline: Pipeline, source: str) -> Problem | None:
    if source in pipeline.views:
        return None
    if not pipeline.sources:
        return Problem("source", "the pipeline has one source, which has no name", source, "leave it out")
    if not source:
        fix = f"write source: {next(iter(pipeline.sources))}; there are {', '.join(pipeline.sources)}"
        return Problem("batch", "of which source?", fix=fix)
    fix = did_you_mean(source, pipeline.sources)
    return Problem("source", "the pipeline has no such source", source, fix)


def _of_partitions(pipeline: Pipeline, step: Partitions) -> Problem | None:
    for partition in step.named:
        source, _ = split_partition(partition)
        if source not in pipeline.sources:
            fix = f"write the source before it, as in {next(iter(pipeline.sources))}/{partition}"
            return Problem("partitions", "is a partition of no source", partition, fix)
    return None
