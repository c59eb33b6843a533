"""Queries on a pipeline that read its store: `pipeline.results("minute_totals")`.

The pipeline is configuration and imports neither Spark nor Delta. The queries run in `latecomer.notebook`, which
imports both. The package registers it with `answered_by`, and the first query loads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from latecomer.after.explain.arrived import Arrived
    from latecomer.after.explain.explanation import Explanation
    from latecomer.after.reading.rows import Rows

Moment: TypeAlias = datetime | str
"""A `datetime`, in UTC unless it has a zone; or ISO-8601 text, in the output's zone unless it has an offset."""
Key: TypeAlias = Mapping[str, str | None]


class Answering:
    """The queries on a pipeline that has been run. Each reads the store at that moment, without Spark."""

    def results(
        self,
        output: str,
        *,
        include_open: bool = False,
        as_of: Moment | None = None,
        as_of_arrival: Moment | None = None,
        valid_at: Moment | None = None,
        key: Key | None = None,
    ) -> Rows:
        """The number that stands for each window and key; `Reader.results` describes the arguments."""
        moments = {"as_of": as_of, "as_of_arrival": as_of_arrival, "valid_at": valid_at}
        return cast("Rows", _notebook().results(self, output, include_open, key, moments))

    def panes(self, output: str, *, window: Moment | None = None, key: Key | None = None) -> Rows:
        """Every number that was published or taken back, in order of publication."""
        return cast("Rows", _notebook().panes(self, output, window, key))

    def late(self, output: str) -> Rows:
        """The side output: every valid event that came late."""
        return cast("Rows", _notebook().late(self, output))

    def dead_letters(self) -> Rows:
        """Every row that could not become an event, and why."""
        return cast("Rows", _notebook().dead_letters(self))

    def watermarks(self) -> Rows:
        """The timeline: the watermark in force for each tick of each batch."""
        return cast("Rows", _notebook().watermarks(self))

    def ledger_totals(self) -> Rows:
        """What was received and what became of it, per output and unit, and whether the two sides balance."""
        return cast("Rows", _notebook().ledger_totals(self))

    def ledger_lines(self) -> Rows:
        """Every line of the ledger: what each batch received, and what became of it."""
        return cast("Rows", _notebook().ledger_lines(self))

    def sink_status(self) -> Rows:
        """How far behind each sink is, since when and why."""
        return cast("Rows", _notebook().sink_status(self))

    def arrivals(self, output: str, *, until: Moment | None = None) -> Arrived:
        """Event time against arrival time, up to a moment of the arrival clock: the watermark as a line, windows as
        bands, late events by fate. A notebook draws it; `svg()` returns it as text."""
        return cast("Arrived", _notebook().arrivals(self, output, until))

    def explain(
        self, output: str, window: Moment, key: Key | None = None, *, clock: str = "published"
    ) -> Explanation:
        """The history of one number, as `latecomer.explain` returns it."""
        return cast("Explanation", _notebook().explain(self, output, window, key, clock=clock))


_ANSWERS: list[Callable[[], Any]] = []


def answered_by(load: Callable[[], Any]) -> None:
    """Register the function that loads the module with the queries."""
    _ANSWERS[:] = [load]


def _notebook() -> Any:
    return _ANSWERS[0]()
