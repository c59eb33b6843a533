"""The story of `bookmyshow`: an hour that is published wrong, then corrected, then rebuilt; its numbers each time."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyspark.sql import SparkSession
from rich.console import Console

from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import serving
from latecomer.cli.stories.bookmyshow import OUTPUT, START, Place, Scenario, outage, write_scenario
from latecomer.cli.stories.shared import batch, count, fates_table, simple_table
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.model.durations import to_micros
from latecomer.spark.base import TaskTotals
from latecomer.store.store import open_store

RANGE = START, START + timedelta(hours=1)

SCALE = 100
SHOWN = (0, 9, 21)
"""The minutes of the outage that are shown."""
IST = ZoneInfo("Asia/Kolkata")

Views = Mapping[Place, int]


@dataclass(frozen=True)
class Moment:
    """What could be read at one time of the story."""

    name: str
    views: Views


@dataclass(frozen=True)
class Account:
    """The story in figures, all of them read from the store."""

    moments: tuple[Moment, ...]
    log: Views
    """A plain count over the log, when everything has arrived."""
    set_aside: tuple[int, int]
    """How many events were in the side output in the evening, and the next morning."""
    behind: int
    """How many windows and keys had another number in the evening than the log had at that time."""
    rebuilt: rebuilding.Applied
    again: rebuilding.Applied
    differences: list[str]
    """Where the ledger and the tables differ."""
    work: TaskTotals
    """What Spark did for both runs."""


def live_through(
    scenario: Scenario,
    *,
    spark: SparkSession | None = None,
    watch: Callable[[BatchReport], None] = lambda _: None,
    doing: Callable[[str], None] = lambda _: None,
) -> Account:
    """Run the evening, correct it, run the next morning, rebuild the hour, and rebuild it once more."""
    pipeline = load_pipeline(scenario.file)
    in_the_evening = run(pipeline, once=True, spark=spark, watch=watch, file=scenario.file)
    reader = Reader(pipeline)
    first, flushed = _first_published(reader), _views(reader.results(OUTPUT))
    doing("correcting …")
    correct(reader, OUTPUT)
    served, then = _views(serving(reader, OUTPUT)), logged(pipeline)
    evening = reader.late(OUTPUT).num_rows
    scenario.let_morning_come()
    doing("the next morning …")
    next_morning = run(pipeline, drain=True, spark=spark, watch=watch, file=scenario.file)
    morning = reader.late(OUTPUT).num_rows
    doing("rebuilding …")
    since, until = map(to_micros, RANGE)
    rebuilt = rebuilding.apply(pipeline, OUTPUT, since, until, spark=spark)
    moments = (
        Moment("first published", first),
        Moment("after the flush", flushed),
        Moment("served with corrections", served),
        Moment("after the rebuild", _views(reader.results(OUTPUT))),
    )
    doing("rebuilding once more …")
    again = rebuilding.apply(pipeline, OUTPUT, since, until, spark=spark)
    doing("checking the ledger …")
    return Account(
        moments,
        logged(pipeline),
        (evening, morning),
        sum(views != then.get(place) for place, views in served.items()),
        rebuilt,
        again,
        check_ledger(pipeline, spark),
        in_the_evening.work + next_morning.work,
    )


def logged(pipeline: Pipeline) -> Views:
    """The views of each minute and city by a plain count over the log."""
    sql = "select date_trunc('minute', event_time) as window_start, city, count(*) as views from t group by 1, 2"
    return _views(open_store(pipeline).events.query(sql))


def _first_published(reader: Reader) -> Views:
    panes = reader.panes(OUTPUT)
    return _views(pa.Table.from_pylist([row for row in panes.to_pylist() if row["timing"] == "ON_TIME"]))


def _views(rows: pa.Table) -> Views:
    return {(row["window_start"], row["city"]): row["views"] for row in rows.to_pylist()}


# Told


def run_story(console: Console, home: Path) -> tuple[tuple[str, ...], TaskTotals]:
    """Run and show the story; returns the commands that show more, and what Spark did for it."""
    with console.status("writing the views of the evening …") as status:
        scenario = write_scenario(home, SCALE)
        console.print(
            f"26 May 2024, the IPL final, at a scale of 1 to {SCALE}: {scenario.rows:,} ticket views.\n"
            f"From 19:32 to 19:54 IST an edge is down, and phones buffer {scenario.buffered:,} of them. They are "
            f"flushed in waves\nuntil 20:05, {scenario.next_morning:,} not before the next morning. Counted by "
            "minute and city; more than 60 s late is set aside.\n"
        )
        status.update("starting Spark …")
        account = live_through(
            scenario, watch=lambda report: status.update(batch(report)), doing=status.update
        )
    show(console, scenario, account)
    the_ledger(console, Reader(load_pipeline(scenario.file)))
    first, end = (f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in RANGE)
    file = shlex.quote(str(scenario.file))
    further = (
        f"panes {file} {OUTPUT} --window 2024-05-26T14:11:00Z --key city=mumbai",
        f"results {file} {OUTPUT} --serving --limit 5",
        f"rebuild list {file} {OUTPUT}",
        f"rebuild plan {file} {OUTPUT} --from {first} --to {end}",
        f"ledger {file} --check",
    )
    return further, account.work


def show(console: Console, scenario: Scenario, account: Account) -> None:
    """The numbers that could be read at each time, and how far off they were."""
    minutes = outage()
    table = simple_table("Views of the minute (IST), and how far they are off what the log says")
    table.add_column("", no_wrap=True)
    shown: dict[str, Callable[[Place], bool]] = {
        f"{minutes[nth].astimezone(IST):%H:%M}": _is(minutes[nth]) for nth in SHOWN
    }
    shown[f"all {len(minutes)} minutes"] = lambda place: place[0] in minutes
    for column in (*shown, "wrong"):
        table.add_column(column, justify="right", no_wrap=True)
    places = [place for place in account.log if place[0] in minutes]
    for name, views in [*((each.name, each.views) for each in account.moments), ("the log", account.log)]:
        cells = [_off(_total(views, wanted), _total(account.log, wanted)) for wanted in shown.values()]
        wrong = sum(views.get(place) != account.log[place] for place in places)
        table.add_row(name, *cells, f"{wrong} of {len(places)}")
    console.print(table)
    evening, morning = account.set_aside
    lost = sum(scenario.seen.values()) - sum(account.log.values())
    taken_in = int(Decimal(account.rebuilt.rebuild.record.taken_in["assignments"]))
    once_more = "nothing to change" if account.again.batch is None else "CHANGED AGAIN"
    for line in (
        f"set aside in the evening {evening:,}, with the next morning {morning:,}; the rebuild took in "
        f"{taken_in:,}",
        f"windows and keys whose number in the evening was not that of the log: {account.behind}",
        f"rebuilt once more: {once_more}; seen on phones and not in the log: {lost:,} views",
        "ledger and tables: " + ("equal" if not account.differences else "; ".join(account.differences)),
    ):
        console.print(line, soft_wrap=True)


def the_ledger(console: Console, reader: Reader) -> None:
    """What was received, and what became of it when it came."""
    lines = {row["unit"]: row for row in reader.ledger_totals().to_pylist()}
    console.print()
    both = {"views": lines["events"], "seats in them": lines["seats"]}
    console.print(fates_table("The ledger: what became of it", both, count))


def _is(minute: datetime) -> Callable[[Place], bool]:
    return lambda place: place[0] == minute


def _total(views: Views, wanted: Callable[[Place], bool]) -> int:
    return sum(many for place, many in views.items() if wanted(place))


def _off(views: int, right: int) -> str:
    """A number and its error, such as `271,208 −34.04 %`; exactly right is `0 %`."""
    error = "0 %" if views == right else f"{(views - right) / right * 100:+.2f} %".replace("-", "−")
    return f"{views:,} {error:>9}"
