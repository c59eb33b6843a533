"""Several folders of readings, and what becomes of each reading: by the store, and by the oracle as they came."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival, Partitions
from latecomer.model.oracle.interpreter import interpret
from latecomer.model.panes import surviving
from latecomer.model.verdicts import Fate

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class Reading(NamedTuple):
    """Seconds after noon: when it was taken, and when it came."""

    source: str
    at: float
    came: float


@dataclass
class Folders:
    """A folder for each source, and the pipeline over them."""

    root: Path
    watermarks: Mapping[str, Mapping[str, Any]]
    """By source."""
    slices: int = 1000
    """How many files a batch of a source has at most."""
    more: Mapping[str, Any] = field(default_factory=dict)
    delivered: list[Reading] = field(default_factory=list)
    files: int = 0

    def __post_init__(self) -> None:
        for name in self.watermarks:
            (self.root / name).mkdir(parents=True, exist_ok=True)

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline.model_validate(
            {
                "name": "stations",
                "store": "store",
                "base": self.root,
                "sources": {
                    name: {
                        "files": {"path": name, "order_by": "came", "max_files_per_batch": self.slices},
                        "schema": {"n": "bigint", "at": "timestamp", "came": "timestamp"},
                        "watermark": dict(watermark),
                    }
                    for name, watermark in self.watermarks.items()
                },
                "event": {"time": "at"},
                "outputs": {"minutes": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
                **self.more,
            }
        )

    def deliver(self, readings: Sequence[Reading], each: int = 1000) -> None:
        """Files of so many readings, of each source in the order of their arrival."""
        for name in self.watermarks:
            own = sorted((one for one in readings if one.source == name), key=lambda one: one.came)
            for begin in range(0, len(own), each):
                self._write(name, own[begin : begin + each])

    def _write(self, name: str, readings: Sequence[Reading]) -> None:
        lines = []
        for one in readings:
            lines.append({"n": len(self.delivered), "at": written(one.at), "came": written(one.came)})
            self.delivered.append(one)
        self.files += 1
        file = self.root / name / f"{self.files:05d}.json"
        file.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")

    def too_late(self) -> set[Reading]:
        """What is in the side output."""
        reader = Reader(self.pipeline)
        return {self.delivered[row["n"]] for row in reader.late("minutes").to_pylist()}

    def standing(self) -> dict[str, int]:
        """Each window with its number of readings."""
        rows = Reader(self.pipeline).results("minutes").to_pylist()
        return {row["window_start"].strftime("%H:%M"): row["n"] for row in rows}

    def as_they_came(self, drain: bool = False) -> tuple[set[Reading], dict[str, int]]:
        """The same by the oracle, which is told each reading when it came, one by one."""
        pipeline, shown = self.pipeline, list[Any]()
        for one in sorted(self.delivered, key=lambda one: one.came):
            moments = (to_micros(NOON + timedelta(seconds=each)) for each in (one.at, one.came))
            shown += [
                Partitions({}, tuple(self.watermarks)),
                [Arrival(*moments, one.source, {"reading": one})],
            ]
        outcome = interpret(shown, pipeline.watermark, pipeline.outputs, drain=drain)
        late = {each.arrival.payload["reading"] for each in outcome.with_fate("minutes", Fate.SIDE_OUTPUT)}
        standing = {
            datetime.fromtimestamp(start / 1_000_000, UTC).strftime("%H:%M"): pane.values["n"]
            for (start, _, _), pane in surviving(outcome.panes("minutes")).items()
        }
        return late, standing


def written(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def steady(source: str, first: int, last: int, step: int, behind: float = 1) -> list[Reading]:
    """A reading every so often, each a little later."""
    return [Reading(source, at, at + behind) for at in range(first, last, step)]
