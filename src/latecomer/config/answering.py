"""What a pipeline answers by itself, from its store: `pipeline.results("minute_totals")`.

The pipeline is configuration and needs neither Spark nor Delta. What answers is `latecomer.notebook`, which has
both at hand. The package names it (`answered_by`), and it is loaded by the first question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from latecomer.after.explain.arrived import Arrived
    from latecomer.after.explain.explanation import Explanation
    from latecomer.after.reading.rows import Rows

Moment: TypeAlias = datetime | str
"""A `datetime`, UTC unless it has a zone; or ISO-8601 text, a time of the output's zone unless it has an offset."""
Key: TypeAlias = Mapping[str, str | None]


class Answering:
    """What can be asked of a pipeline that has been run. It is read from the store at that moment, without Spark."""

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
        """The number that stands for each window and key; `Reader.results` has what can be asked for."""
        asked = {"as_of": as_of, "as_of_arrival": as_of_arrival, "valid_at": valid_at}
        rows: Rows = _notebook().results(self, output, include_open, key, asked)
        return rows

    def panes(self, output: str, *, window: Moment | None = None, key: Key | None = None) -> Rows:
        """Every number ever published and every one taken back, in order of publication."""
        rows: Rows = _notebook().panes(self, output, window, key)
        return rows

    def late(self, output: str) -> Rows:
        """The side output: every event that was fine but late."""
        rows: Rows = _notebook().late(self, output)
        return rows

    def dead_letters(self) -> Rows:
        """Every row that is no event, and why."""
        rows: Rows = _notebook().dead_letters(self)
        return rows

    def watermarks(self) -> Rows:
        """The timeline: the watermark in force for each tick of each batch."""
        rows: Rows = _notebook().watermarks(self)
        return rows

    def ledger_totals(self) -> Rows:
        """What was received and what became of it, per output and unit; and whether that balances."""
        rows: Rows = _notebook().ledger_totals(self)
        return rows

    def ledger_lines(self) -> Rows:
        """Every line of the ledger: what each batch received, and what became of it."""
        rows: Rows = _notebook().ledger_lines(self)
        return rows

    def sink_status(self) -> Rows:
        """How far each sink is behind, since when and why."""
        rows: Rows = _notebook().sink_status(self)
        return rows

    def arrivals(self, output: str, *, until: Moment | None = None) -> Arrived:
        """Event time against arrival time, up to a moment of the arrival clock: the watermark as a line, windows as
        bands, late events by fate. A notebook draws it; `svg()` has it as text."""
        found: Arrived = _notebook().arrivals(self, output, until)
        return found

    def explain(
        self, output: str, window: Moment, key: Key | None = None, *, clock: str = "published"
    ) -> Explanation:
        """The life of one number; as `latecomer.explain`."""
        found: Explanation = _notebook().explain(self, output, window, key, clock=clock)
        return found


_ANSWERS: list[Callable[[], Any]] = []


def answered_by(load: Callable[[], Any]) -> None:
    """Say what answers: a function that loads it."""
    _ANSWERS[:] = [load]


def _notebook() -> Any:
    return _ANSWERS[0]()
