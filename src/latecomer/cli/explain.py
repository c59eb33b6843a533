"""`latecomer explain`: the life of one number, and why it changed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.after.reading.choices import Clock
from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    OutputName,
    Zoned,
    key_of,
    limit_of,
    moment_of,
    note,
    open_reader,
    print_json,
    show,
    writing,
)
from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.zoned import moment_in_words

if TYPE_CHECKING:
    from latecomer.after.explain.explanation import Explanation
    from latecomer.after.explain.fates import JudgedEvent
    from latecomer.after.explain.life import PublishedNumber

_STYLES = {"EARLY": "cyan", "ON_TIME": "blue", "LATE": "yellow", "CLOSING": "white", "CORRECTION": "magenta"}


def explain(
    file: File,
    output: OutputName,
    window: Annotated[
        str, typer.Option(help="The window that holds this moment, such as 2026-04-25T14:00Z.", metavar="T")
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(help="The key, column by column. An empty value is null.", metavar="K=V"),
    ] = None,
    events: Annotated[
        str, typer.Option(help="List at most N events of each pane, or all.", metavar="N|all")
    ] = "10",
    svg: Annotated[
        Path | None, typer.Option(help="Also draw it: an SVG picture in this file.", metavar="PATH")
    ] = None,
    clock: Annotated[
        Clock,
        typer.Option(
            help="Which clock dates a pane: published (its batch was published) or arrival (the events or the "
            "watermark that fired it had arrived)."
        ),
    ] = Clock.PUBLISHED,
    form: Formatted = Format.TABLE,
    zone: Zoned = None,
) -> None:
    """Show the life of one number: each pane, when and why it was published, and which events it took in.

    --format json prints one document, csv one line for each event.
    """
    from latecomer.after.explain.explain import explain as explained
    from latecomer.api import by_spark

    reader = open_reader(file, zone, output)
    most = limit_of(events, "--events", "events")
    moment, values = moment_of("--window", window), key_of(key)
    explanation = explained(reader, output, moment, values, clock, by_spark)
    if svg is not None:
        with writing("--svg", svg):
            svg.write_text(explanation.picture(), encoding="utf-8")
    if form is Format.JSON:
        print_json(explanation.document(most))
    elif form is Format.CSV:
        _print_events(explanation, most)
    else:
        _Page(explanation, most).print()
    if svg is not None:
        note(f"the picture is in {svg}")


def _print_events(explanation: Explanation, most: int) -> None:
    from latecomer.after.explain.explanation import event_rows

    groups: dict[tuple[int | None, str], list[JudgedEvent]] = {}
    for published in explanation.panes:
        for each in published.took[:most]:
            fate = "unknown" if each.fate is None else each.fate.value
            groups.setdefault((published.pane.sequence, fate), []).append(each)
    groups[None, "in_no_pane"] = list(explanation.in_no_pane[:most])
    groups |= {(None, fate.value): list(listed[:most]) for fate, listed in explanation.left_out.items()}
    show(event_rows(groups), Format.CSV, "")


class _Page:
    """An explanation as text: coloured on a terminal, else plain."""

    def __init__(self, explanation: Explanation, most: int) -> None:
        from rich.console import Console

        self.explanation = explanation
        self.most = most
        self.console = Console(file=sys.stdout, highlight=False, soft_wrap=True, markup=False, emoji=False)

    def print(self) -> None:
        self._title()
        for published in self.explanation.panes:
            self._pane(published)
        if self.explanation.in_no_pane:
            self._print("\naccepted, and in no pane yet", "bold")
            self._events(self.explanation.in_no_pane)
        left_out = {fate: events for fate, events in self.explanation.left_out.items() if events}
        for fate, events in left_out.items():
            self._print(f"\nleft out: {fate.value.replace('_', ' ')}", "bold red")
            self._events(events)
        self._print("")
        for remark in self.explanation.notes:
            self._print(f"note: {remark}", "yellow")
        from latecomer.after.explain.explanation import read_in_words

        self._print(read_in_words(self.explanation), "dim")

    def _title(self) -> None:
        from latecomer.after.explain.explanation import standing, title

        self._print(title(self.explanation), "bold")
        self._print(standing(self.explanation))

    def _pane(self, published: PublishedNumber) -> None:
        from latecomer.after.explain.explanation import values_in_words
        from latecomer.after.explain.places import in_words

        pane = published.pane
        head = f"\n{pane.sequence} {pane.timing} {pane.op}"
        window = "" if pane.window == self.explanation.window else f"  [{in_words(pane.window)}]"
        self._print(
            f"{head}  {values_in_words(pane.values)}{_changes(published)}{window}",
            f"bold {_STYLES[pane.timing]}",
        )
        # Within a batch a pane is fired before the clock of its line, which is that of the batch's end.
        by_arrival = self.explanation.clock is not Clock.PUBLISHED
        fired_at = self.explanation.known_at(published) if by_arrival else pane.fired_at
        said = by_arrival or fired_at not in (None, pane.ended_at)
        known = f"fired at {moment_in_words(fired_at)}, " if said else ""
        when = "" if pane.published_at is None else f" at {moment_in_words(pane.published_at)}"
        self._print(
            f"  {known}published by batch {pane.batch}{when}, arrival clock {moment_in_words(pane.ended_at)}, "
            f"under watermark {moment_in_words(pane.watermark)}"
        )
        self._print(f"  why: {self.explanation.why(published)}")
        if earlier := self.explanation.defined_otherwise(published):
            self._print(f"  under an earlier definition: {earlier}")
        if pane.op != "retract":
            self._events(published.took, took=True)
        if published.lost:
            self._print(
                f"  no longer holds {self._in_figures(published.lost)}: the output's where now excludes them"
            )

    def _events(self, events: Sequence[JudgedEvent], took: bool = False) -> None:
        """The events in figures, and the first of them in a table."""
        from latecomer.after.explain.explanation import event_rows
        from latecomer.cli.render import print_table

        self._print(f"  {'took in ' if took else ''}{self._in_figures(events)}")
        if not events or self.most == 0:
            return
        rows = event_rows({(None, ""): events[: self.most]}).drop_columns(["pane", "fate"])
        empty = [name for name in rows.schema.names if rows[name].null_count == rows.num_rows]
        print_table(rows.drop_columns(empty), out=sys.stdout)
        if len(events) > self.most:
            self._print(f"  and {len(events) - self.most:,} more; --events all lists them")

    def _in_figures(self, events: Sequence[JudgedEvent]) -> str:
        from latecomer.after.explain.life import total
        from latecomer.after.explain.places import shown_value
        from latecomer.model.durations import shown_duration

        count = counted(len(events), "event") if events else "no event"
        added = [f"{measure} {shown_value(total(events, measure))}" for measure in self.explanation.measures]
        behind = [each.event.behind for each in events if each.event.behind is not None]
        if behind:
            most = shown_duration(max(behind))
            added.append(f"{len(behind):,} behind the watermark, by {most} at most")
        return f"{count} ({', '.join(added)})" if events and added else count

    def _print(self, text: str, style: str | None = None) -> None:
        lines = text.split("\n")
        self.console.print("\n".join(map(harmless, lines)), style=style)


def _changes(published: PublishedNumber) -> str:
    """What changed against the pane before, in brackets."""
    from latecomer.after.explain.explanation import change

    changed = [f"{name} {change(by)}" for name, by in published.differences.items() if by]
    return f"  ({', '.join(changed)})" if changed else ""
