"""The output of a run, while it runs and at its end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.cli.options import Format, command
from latecomer.cli.render import print_table
from latecomer.cli.reporting import JsonDisplay
from latecomer.cli.steps import current
from latecomer.cli.terminal import csv_cell
from latecomer.engine.ledger.report import by_output, progress_of, rate
from latecomer.model.counting import counted
from latecomer.model.durations import shown_duration
from latecomer.model.publications import lag
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.written_values import csv_line, csv_text
from latecomer.model.zoned import moment, moment_in_words
from latecomer.store.publications import wall_clock

if TYPE_CHECKING:
    from pathlib import Path

    from latecomer.after.reading.reader import Reader
    from latecomer.config.models import Pipeline
    from latecomer.config.sources import Files
    from latecomer.engine.ledger.report import BatchReport
    from latecomer.engine.running import RunReport
    from latecomer.observe.metrics_server import ServedMetrics

SHOWN_FATES = (Fate.LATE_ACCEPTED, Fate.SIDE_OUTPUT, Fate.DROPPED)
"""The fates in a line of progress; the summary has all."""

SENT_AGAIN = (
    "Or they were delivered again: an id is remembered for the longest window and its allowed_lateness, and an event "
    "that comes again after that is late. Then do not send it again, or set a longer allowed_lateness, which "
    "remembers ids longer. "
)


@dataclass
class Totals:
    """The batches of this run, added up."""

    batches: int = 0
    first_batch: int | None = None
    last_batch: int | None = None
    rows: int = 0
    events: int = 0
    dead_letters: int = 0
    seconds: float = 0.0
    watermark: int = BEGIN_OF_TIME
    newest_arrival: int = BEGIN_OF_TIME
    received: dict[str, Decimal] = field(default_factory=dict)
    fates: dict[str, dict[Fate, Decimal]] = field(default_factory=dict)

    def add(self, report: BatchReport) -> None:
        self.batches += 1
        self.first_batch = report.batch if self.first_batch is None else self.first_batch
        self.last_batch = report.batch
        self.rows += report.received.rows
        self.events += report.received.events
        self.dead_letters += report.received.dead_letters
        self.seconds += report.seconds
        self.watermark, self.newest_arrival = report.watermark, report.newest_arrival
        for output, (received, fates) in by_output(report).items():
            self.received[output] = self.received.get(output, Decimal(0)) + received
            sums = self.fates.setdefault(output, dict.fromkeys(Fate, Decimal(0)))
            for fate, count in fates.items():
                sums[fate] += count


def as_json(report: BatchReport) -> dict[str, Any]:
    """A batch as one JSON object."""
    return progress_of(report, moment)


def as_line(report: BatchReport) -> str:
    """A batch as one line of text."""
    line = f"batch {report.batch}"
    if report.kind != "data":
        line += f" ({report.kind})"
    speed = rate(report.received.rows, report.seconds)
    line += f": {counted(report.received.rows, 'row')} in {report.seconds:.1f} s ({speed:,} rows/s), "
    line += watermark_in_words(report.watermark, report.newest_arrival, report.published_at)
    if report.unread:
        line += f", {counted(report.unread, 'row')} still to read"
        line += f" (about {shown_duration(report.unread * 1_000_000 // speed)})" if speed else ""
    if report.received.dead_letters:
        line += f", {counted(report.received.dead_letters, 'dead letter')}"
    return "; ".join([line, *_counts_of(report, (*SHOWN_FATES, Fate.FAILED))])


def _counts_of(report: BatchReport, shown: Sequence[Fate]) -> Iterator[str]:
    """The events of some fates, for each output that has any."""
    for output, (_, fates) in by_output(report).items():
        counts = [f"{int(fates[fate]):,} {in_words(fate)}" for fate in shown if fates.get(fate)]
        if counts:
            yield f"{output}: {', '.join(counts)}"


def out_of_step_in_words(report: BatchReport, files: Files | None, ids: bool = False) -> str | None:
    """The warning for a batch that was read after events which arrived clearly later, and what to do. With `ids` the
    pipeline knows duplicates by their ids, and forgets ids."""
    out_of_step = report.out_of_step
    if out_of_step is None:
        return None
    late = "; ".join(_counts_of(report, SHOWN_FATES))
    late = f"in the whole batch: {late}" if late else "none of them is late"
    again = SENT_AGAIN if ids else ""
    return (
        f"warning: batch {report.batch} has {counted(out_of_step.events, 'event')} that arrived up to "
        f"{shown_duration(out_of_step.by)} before others that had been read already"
        f" ({late}). {_in_order(files)} set a longer watermark.delay. {again}"
        "Later batches are not warned of; latecomer ledger counts them all."
    )


def dead_in_words(report: BatchReport, most: float | None, file: Path) -> str | None:
    """The warning for a batch of which all rows, or more than `most` of them, are dead letters."""
    rows, dead = report.received.rows, report.received.dead_letters
    if not dead or not is_beyond(report, 1.0 if most is None else most):
        return None
    which = f"all {rows:,} rows" if dead == rows else f"{dead:,} of {rows:,} rows ({dead / rows:.1%})"
    sentence = (
        f"the only row of batch {report.batch} is a dead letter"
        if rows == 1
        else f"{which} of batch {report.batch} are dead letters"
    )
    shown = command("dead-letters", file, "--by", "reason")
    return f"warning: {sentence}; {shown} shows why. Later batches are not warned of."


def is_beyond(report: BatchReport, most: float) -> bool:
    """Whether more than this share of a batch's rows are dead letters; with a share of 1, whether all are."""
    rows, dead = report.received.rows, report.received.dead_letters
    return bool(dead) and (dead > most * rows or dead == rows == most * rows)


def _in_order(files: Files | None) -> str:
    """What to do so that rows are read in the order in which they arrived."""
    if files is None:
        return "Let the source hand in rows in the order in which they came, or"
    order = "" if files.order_by else "name the column with the arrival time in source.files.order_by, "
    return (
        "Files are read by modification time, then by path. Give them modification times (touch -d) or names in the "
        f"order in which they came, {order}read more of them in one batch (source.files.max_files_per_batch: "
        f"{files.max_files_per_batch}), or"
    )


def watermark_in_words(watermark: int, newest_arrival: int, now: int | None) -> str:
    """The watermark, and how far it is behind both clocks. By the newest arrival alone, a source that has stopped would
    look healthy for ever."""
    by_clock = {
        "the wall clock": lag(watermark, now),
        "the newest arrival": lag(watermark, newest_arrival),
    }
    parts = [_behind(behind, clock) for clock, behind in by_clock.items() if behind is not None]
    return f"watermark {moment_in_words(watermark)}" + (f" ({', '.join(parts)})" if parts else "")


def _behind(behind: int, clock: str) -> str:
    return f"{shown_duration(abs(behind))} {'behind' if behind >= 0 else 'ahead of'} {clock}"


def in_words(fate: Fate) -> str:
    return fate.value.replace("_", " ")


Progress = Callable[["BatchReport"], None]
"""Is called with each batch."""


class Watch:
    """Is called with each batch of a run: adds it up, counts it for the metrics, shows it, and warns of each kind of
    trouble once."""

    def __init__(
        self, pipeline: Pipeline, file: Path, form: Format, most: float | None, serving: ServedMetrics | None
    ) -> None:
        self.totals = Totals()
        self.too_many_dead = False
        """Whether more than the share `most` of some batch's rows were dead letters."""
        self._files = None if pipeline.sources else pipeline.source.files
        self._ids = pipeline.event.id is not None
        self._file, self._most, self._serving = file, most, serving
        self._show = progress(form, self.totals)
        self._warned: set[str] = set()

    def __call__(self, report: BatchReport) -> None:
        self.totals.add(report)
        if self._serving is not None:
            self._serving.figures.batch(report)
        self._show(report)
        self.too_many_dead |= self._most is not None and is_beyond(report, self._most)
        warnings = {
            "order": out_of_step_in_words(report, self._files, self._ids),
            "dead": dead_in_words(report, self._most, self._file),
        }
        for kind, warning in warnings.items():
            if warning is not None and kind not in self._warned:
                self._warned.add(kind)
                current().line(warning)


def progress(form: Format, totals: Totals, clock: Callable[[], int] = wall_clock) -> Progress:
    """A function that shows each batch: JSON and CSV on standard output; else on standard error, live on a terminal,
    or as a line for each batch. Where standard error is JSON, each batch is an object there as well."""
    display = current()
    if isinstance(display, JsonDisplay):
        also = _on_standard_output(form)

        def log_batch(report: BatchReport) -> None:
            display.say("info", "batch", **as_json(report))
            also(report)

        return log_batch
    if form is not Format.TABLE:
        return _on_standard_output(form)

    def report_batch(report: BatchReport) -> None:
        # Computed whenever it is shown, so that a source that has stopped does not look healthy.
        display.watermark = lambda: watermark_in_words(report.watermark, report.newest_arrival, clock())
        if display.on_terminal:
            display.status = lambda: _status(report, totals, clock())
        elif not display.quiet:
            display.line(as_line(report))

    return report_batch


def _on_standard_output(form: Format) -> Progress:
    if form is Format.TABLE:
        return lambda _: None
    if form is Format.JSON:
        return lambda report: print(json.dumps(as_json(report)), flush=True)
    header = ["batch", "kind", "seconds", "watermark", "output", "received", *(fate.value for fate in Fate)]
    sys.stdout.write(csv_line(header))

    def write_rows(report: BatchReport) -> None:
        fields = as_json(report)
        for output, counts in (fields["outputs"] or {"": {}}).items():
            of_output = [output, *(counts.get(name) for name in header[5:])]
            cells = [*(fields[name] for name in header[:4]), *of_output]
            sys.stdout.write(csv_line([csv_cell(csv_text(cell)) for cell in cells]))
        sys.stdout.flush()

    return write_rows


def _status(report: BatchReport, totals: Totals, now: int) -> str:
    speed = rate(report.received.rows, report.seconds)
    watermark = watermark_in_words(report.watermark, report.newest_arrival, now)
    lines = [
        f"batch {report.batch}  {speed:,} rows/s  {watermark}  {counted(totals.dead_letters, 'dead letter')}"
    ]
    for output, fates in totals.fates.items():
        shown = [*SHOWN_FATES, *([Fate.FAILED] if fates[Fate.FAILED] else [])]
        counts = "  ".join(f"{in_words(fate)} {int(fates[fate]):,}" for fate in shown)
        lines.append(f"  {output}  {counts}")
    return "\n".join(lines)


def print_dead_letters(totals: Totals, reader: Reader, form: Format, file: Path) -> None:
    """The dead letters of this run by reason, and what to do next: with tables on standard output, else in a line on
    standard error."""
    dead = totals.dead_letters + int(sum(fates[Fate.FAILED] for fates in totals.fates.values()))
    if not dead:
        return
    rows = reader.dead_letters_by("reason", totals.first_batch or 0)
    letters = command("dead-letters", file)
    if form is Format.TABLE:
        print(f"\n{counted(dead, 'dead letter')} by reason; {letters} shows each", flush=True)
        print_table(rows)
    else:
        reasons = ", ".join(f"{row['reason']} {row['dead_letters']}" for row in rows.to_pylist())
        current().line(f"{counted(dead, 'dead letter')} ({reasons}): {letters}")


def print_summary(totals: Totals, report: RunReport) -> None:
    """The run in two tables on standard output: the whole, and the fates of events per output."""
    whole = {
        "batches": pa.array([totals.batches]),
        "rows": pa.array([totals.rows]),
        "events": pa.array([totals.events]),
        "seconds": pa.array([Decimal(f"{totals.seconds:.1f}")]),
        "rows/s": pa.array([rate(totals.rows, totals.seconds)]),
        "watermark": pa.array(["drained" if report.drained else moment_in_words(report.watermark)]),
    }
    for line in _what_happened(totals, report):
        print(line)
    print_table(pa.table(whole))
    if not totals.fates:
        return
    names = list(totals.fates)
    received = [int(totals.received[name]) for name in names]
    columns = {"output": pa.array(names), "received": pa.array(received)}
    for fate in Fate:
        columns[in_words(fate)] = pa.array([int(totals.fates[name][fate]) for name in names], pa.int64())
    print(flush=True)
    print_table(pa.table(columns))


def _what_happened(totals: Totals, report: RunReport) -> Iterator[str]:
    """The news of a run that the table of batches does not show."""
    if report.filled.columns:
        filled = report.filled
        columns = (
            f"columns {', '.join(filled.columns)} are"
            if len(filled.columns) > 1
            else f"column {filled.columns[0]} is"
        )
        have = f"{counted(filled.events, 'past event')} {'has' if filled.events == 1 else 'have'}"
        lost = f"; in {filled.unread:,} it is not of the column's type" if filled.unread else ""
        yield f"{columns} new: {have} a value from what was kept{lost}"
    if report.unknown.events:
        yield f"{report.unknown.in_words}, kept as text in the log"
    for output, seconds in report.computed.items():
        yield f"output {output} is new: it was computed from the log in {seconds:.1f} s"
    if not totals.batches:
        before = f"{counted(report.batches, 'batch')} {'is' if report.batches == 1 else 'are'} complete"
        yield f"nothing new: {before if report.batches else 'no batch has been read yet'}"
    if report.drained:
        yield "the input was drained: every window is closed"
