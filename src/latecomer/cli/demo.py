"""`latecomer demo`: Diwali night, the same arrivals through four outputs, side by side; or another story."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.demo_tables import batch, count, fates_table, rupees, simple_table
from latecomer.cli.options import hush_spark

if TYPE_CHECKING:
    from rich.console import Console

    from latecomer.after.reading.reader import Reader
    from latecomer.spark.base import Work

POLICIES = {
    "dashboard": "drop",
    "warehouse": "update",
    "cfo_report": "side output",
    "alerts": "retract",
}


class Story(StrEnum):
    """The stories there are."""

    DIWALI = "diwali"
    BOOKMYSHOW = "bookmyshow"


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the scenario; a temporary folder by default.")
    ] = None,
    story: Annotated[
        Story, typer.Option(help="bookmyshow: an hour that is corrected, then rebuilt.")
    ] = Story.DIWALI,
) -> None:
    """Run the Diwali scenario: 300,000 payments, one tower sixteen minutes late, four late policies."""
    from rich.console import Console

    from latecomer.errors import LatecomerError
    from latecomer.spark.java import required_java

    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 110
    began = time.monotonic()
    required_java()
    home = (folder or Path(tempfile.mkdtemp(prefix="latecomer-demo-"))).resolve()
    if folder is not None and home.exists() and any(home.iterdir()):
        raise LatecomerError(f"--folder {folder}: is not empty; name a new folder")
    hush_spark()
    if story is Story.BOOKMYSHOW:
        from latecomer.cli.demo_bookmyshow import run_story

        further, work = run_story(console, home)
    else:
        further, work = _diwali(console, home)
    console.print(f"\n{time.monotonic() - began:.0f} seconds, Spark's start included. Look further:")
    for line in further:
        console.print(f"  {as_typed()} {line}", soft_wrap=True)
    console.print(f"\n{work.in_words}")


def as_typed() -> str:
    """How to type the command in this shell: by name if the PATH has it, else by path."""
    program, on_path = Path(sys.argv[0]).resolve(), shutil.which("latecomer")
    if on_path is not None and Path(on_path).resolve() == program:
        return "latecomer"
    if program.name != "latecomer":
        return f"{sys.executable} -m latecomer"
    return os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program)


def _diwali(console: Console, home: Path) -> tuple[tuple[str, ...], Work]:
    """Run and show the story; returns the commands that show more, and what Spark did for it."""
    from latecomer.after.reading.reader import Reader
    from latecomer.cli.stories.diwali import write_scenario
    from latecomer.config.load import load_pipeline
    from latecomer.engine.running import run

    with console.status("writing the payments of Diwali night …") as status:
        file, payments = write_scenario(home)
        console.print(f"{payments:,} UPI payments, 19:25 to 19:50 IST, from eight towers.")
        console.print(
            "At 19:30:14 the tower in Lucknow goes silent; at 19:47:22 it sends what it had buffered:\n"
            "1,824 payments of the minute 19:30, closed and published sixteen minutes before. (A few others of\n"
            "that minute were late, too, and came earlier.) After the last payment a drain closes every window,\n"
            "because the night is over; a warning says what a drain means for input that comes later.\n"
        )
        status.update("starting Spark …")
        done = run(
            load_pipeline(file), drain=True, watch=lambda report: status.update(batch(report)), file=file
        )
    reader = Reader(load_pipeline(file))
    _print_minute(console, reader)
    _print_ledger(console, reader)
    further = (
        f"panes {file} warehouse --window 2026-11-08T14:00:00Z",
        f"panes {file} alerts --window 2026-11-08T14:00:00Z --key tower=lucknow",
        f"late {file} cfo_report --limit 5",
        f"ledger {file} --check",
    )
    return further, done.work


def _print_minute(console: Console, reader: Reader) -> None:
    """The number of each output for the minute 19:30: as first published, and now."""
    from latecomer.cli.stories.diwali import CLOSED_MINUTE

    table = simple_table("The minute 19:30 IST, by late policy")
    for column in ("", "late", "first published", "stands now", "payments", "set aside"):
        table.add_column(column, justify="left" if column in ("", "late") else "right", no_wrap=True)
    payments = {}
    for name, policy in POLICIES.items():
        published = reader.panes(name, window=CLOSED_MINUTE).to_pylist()
        standing = [row for row in reader.results(name).to_pylist() if row["window_start"] == CLOSED_MINUTE]
        aside = [row for row in reader.late(name).to_pylist() if row["window_start"] == CLOSED_MINUTE]
        payments[name] = sum(row["payments"] for row in standing)
        table.add_row(
            name,
            policy,
            rupees(sum(pane["paise"] for pane in published if pane["timing"] == "ON_TIME")),
            rupees(sum(row["paise"] for row in standing)),
            f"{payments[name]:,}",
            rupees(sum(row["paise"] for row in aside)),
        )
    console.print(table)
    console.print(_late_in_words(payments["warehouse"] - payments["dashboard"]))


def _late_in_words(late: int) -> str:
    """How many payments of the minute came late, and how many others than those of the silent tower.

    >>> _late_in_words(1_834)
    '1,834 payments of this minute came after it was closed: the 1,824 from Lucknow, and 10 others.\\n'
    """
    from latecomer.cli.stories.diwali import BUFFERED

    others = f", and {late - BUFFERED:,} others" if late > BUFFERED else ""
    return (
        f"{late:,} payments of this minute came after it was closed: the {BUFFERED:,} from Lucknow{others}.\n"
    )


def _print_ledger(console: Console, reader: Reader) -> None:
    """What was received and what became of it, by output: in payments and in rupees."""
    totals = reader.ledger_totals().to_pylist()
    for unit, title, shown in (
        ("events", "The ledger in payments", count),
        ("paise", "The ledger in rupees, to the paisa", rupees),
    ):
        lines = {row["output"]: row for row in totals if row["unit"] == unit}
        console.print(fates_table(title, {name: lines[name] for name in POLICIES}, shown))
