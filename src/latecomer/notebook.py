"""The pipeline that a program holds: that of `config/`, with methods that read its store, and rows as a notebook shows
them.

The configuration imports neither Spark nor Delta. What a method needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from latecomer.config import models
from latecomer.config.arguments import require_key
from latecomer.model.durations import to_micros
from latecomer.model.ledger import difference
from latecomer.model.verdicts import Fate
from latecomer.model.windows import zone_of
from latecomer.model.words import key_in_words

if TYPE_CHECKING:
    import pyarrow as pa

    from latecomer.after.explain.arrived import Arrived
    from latecomer.after.explain.explanation import Explanation
    from latecomer.after.reading.reader import Reader
    from latecomer.after.reading.rows import Rows
    from latecomer.api import Moment

    Key = Mapping[str, str | None]


class Pipeline(models.Pipeline):
    """A pipeline. `load_pipeline("pipeline.yaml")` reads one from a file.

    Its methods are for a pipeline that has been run: each reads the store at that moment, without Spark.
    """

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
        given = {"as_of": as_of, "as_of_arrival": as_of_arrival, "valid_at": valid_at}
        moments = self._moments("results", output, given)
        require_key("results", key)
        reader = self._reader()
        table = reader.results(
            output,
            include_open,
            moments["as_of"],
            moments["valid_at"],
            key,
            as_of_arrival=moments["as_of_arrival"],
        )
        named = [f", {_WORDS[name]} {moment}" for name, moment in given.items() if moment is not None]
        title = _titled(output, "results", key) + "".join(named)
        nothing = "no window has a number here; include_open=True shows those still open"
        return self._rows(table, title, nothing, output, notes=reader.notes)

    def panes(self, output: str, *, window: Moment | None = None, key: Key | None = None) -> Rows:
        """Every number that was published or taken back, in order of publication."""
        moment = self._moments("panes", output, {"window": window})["window"]
        table = self._reader().panes(output, moment, key)
        return self._rows(table, _titled(output, "panes", key), "no number has been published here", output)

    def late(self, output: str) -> Rows:
        """The side output: every valid event that came late."""
        self._moments("late", output, {})
        return self._rows(
            self._reader().late(output), f"{output}: side output", "no event was set aside", output
        )

    def dead_letters(self) -> Rows:
        """Every row that could not become an event, and why."""
        table = self._reader().dead_letters()
        return self._rows(table, f"{self.name}: dead letters", "every row was read as an event")

    def watermarks(self) -> Rows:
        """The timeline: the watermark in force for each tick of each batch."""
        table = self._reader().watermarks()
        return self._rows(table, f"{self.name}: watermarks", "no batch has been accepted yet")

    def ledger_totals(self) -> Rows:
        """What was received and what became of it, per output and unit, and whether the two sides balance."""
        table = self._reader().ledger_totals()
        wrong = _differences(table)
        notes = ["received is the sum of all fates, in every line"] if table.num_rows and not wrong else []
        return self._rows(
            table, f"{self.name}: ledger", "no batch is complete yet", notes=notes, warnings=wrong
        )

    def ledger_lines(self) -> Rows:
        """Every line of the ledger: what each batch received, and what became of it."""
        table, title = self._reader().ledger(), f"{self.name}: ledger, batch by batch"
        return self._rows(table, title, "no batch is complete yet", warnings=_differences(table))

    def sink_status(self) -> Rows:
        """How far behind each sink is, since when and why."""
        from latecomer import api

        return self._rows(api.sink_status(self), f"{self.name}: sinks", "the pipeline has no sinks")

    def arrivals(self, output: str, *, until: Moment | None = None) -> Arrived:
        """Event time against arrival time, up to a moment of the arrival clock: the watermark as a line, windows as
        bands, late events by fate. A notebook draws it; `svg()` returns it as text."""
        from latecomer.after.explain.arrived import arrived

        moment = self._moments("arrivals", output, {"until": until})["until"]
        return arrived(self._reader(), output, None if moment is None else to_micros(moment))

    def explain(
        self, output: str, window: Moment, key: Key | None = None, *, clock: str = "published"
    ) -> Explanation:
        """The history of one number, as `latecomer.explain` returns it."""
        from latecomer import api

        return api.explain(self, output, window, key, clock=clock)

    def _reader(self) -> Reader:
        from latecomer.after.reading.reader import Reader

        return Reader(self)

    def _moments(
        self,
        call: str,
        output: str,
        given: Mapping[str, Moment | None],
    ) -> dict[str, datetime | None]:
        """The arguments that are moments. An output that does not exist is refused first."""
        from latecomer import api

        api.require_pipeline_and_output(call, self, output)
        return {
            name: None if moment is None else api.moment_of(call, name, self, output, moment)
            for name, moment in given.items()
        }

    def _rows(
        self,
        table: pa.Table,
        title: str,
        nothing: str,
        output: str | None = None,
        *,
        notes: Iterable[str] = (),
        warnings: Iterable[str] = (),
    ) -> Rows:
        """Rows as a notebook shows them; those of an output in the zone of its windows."""
        from latecomer.after.reading.rows import Rows

        zone = "UTC" if output is None else zone_of(self.outputs[output].window)
        return Rows(table, title, zone, nothing, tuple(notes), tuple(warnings))


def load_pipeline(path: str | Path) -> Pipeline:
    """The pipeline in a file, checked as far as it can be without the source's columns."""
    from latecomer.config import load

    loaded = load.load_pipeline(path)
    return Pipeline.model_construct(loaded.model_fields_set, **dict(loaded))


_WORDS = {
    "as_of": "as it stood at",
    "as_of_arrival": "as it could have stood at",
    "valid_at": "the window that holds",
}
"""An argument of `results` in the title of its rows."""


def _titled(output: str, what: str, key: Key | None) -> str:
    return f"{output}: {what}" + (f" of {key_in_words(key)}" if key else "")


def _differences(lines: pa.Table) -> list[str]:
    """The lines of the ledger in which received is not the sum of the fates."""
    from latecomer.model.written_values import short_text

    sentences = []
    for row in lines.to_pylist():
        apart = difference(row["received"], (row[fate.value] for fate in Fate))
        if apart:
            batch = f"batch {row['batch']}, " if "batch" in row else ""
            sentences.append(
                f"{batch}{row['output']}, {row['unit']}: received and accounted for differ by {short_text(apart)}"
            )
    return sentences
