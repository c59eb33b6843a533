"""The two worked examples with a pipeline that runs on: through all four phases and back, no number flickers.

Every event has one true value, whatever shape it is written in. After each step the numbers that stand, in the store
and in Postgres, are those of the true values; and nothing that stood before a step has changed by it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep, time_ns
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from cli.cli_kit import Cli, calling
from latecomer import load_pipeline, run
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.engine.ledger.check import check_ledger
from latecomer.model.durations import to_micros
from latecomer.schemas.migrations import Phase
from postgres_kit import Postgres
from schemas.migrations.migration_kit import RIDE, USER, avro, pricing, rename, text
from schemas.registry.registry_kit import Server
from spark_kit import running_beside

START = datetime(2020, 1, 1, tzinfo=UTC)
AFTER = timedelta(days=79 * 365)
"""Events that arrive so much later come after every phase has begun, by the clock of the registry."""
TARGET = "LATECOMER_TEST_TARGET"
AT_ONCE = {"expand": "0s", "dual_write": "0s", "migrate": "0s"}
Shape = Callable[[int], dict[str, Any]]


def old(value: int) -> dict[str, Any]:
    return {"fare_cents": value}


def new(value: int) -> dict[str, Any]:
    return {"pricing": {"base": value - 30, "surge": 20, "tax": 10}}


def both(value: int) -> dict[str, Any]:
    return {**old(value), **new(value)}


def dated(value: int) -> dict[str, Any]:
    return {"signup_date": f"2019-12-{value % 28 + 1:02d}"}


def timed(value: int) -> dict[str, Any]:
    return {"created_at": f"2019-12-{value % 28 + 1:02d}T00:00:00Z"}


def dated_and_timed(value: int) -> dict[str, Any]:
    return {**dated(value), **timed(value)}


@dataclass
class Story:
    """A pipeline, its migration, and events minute after minute."""

    folder: Path
    postgres: Postgres
    spark: SparkSession
    cli: Cli
    source: Mapping[str, str]
    """The columns beside those of the migration."""
    output: Mapping[str, Any]
    migration: Path
    of_old: str
    """The column of the old shape."""
    of_new: set[str]
    """Those of the new one."""
    schema: str
    minute: int = -1
    values: list[list[int]] = field(default_factory=list)
    """The true values of each minute that were in time."""
    late: list[int] = field(default_factory=list)
    due: bool = False
    """Whether both shapes are due: what arrived before that is not held to them."""

    @property
    def file(self) -> Path:
        return self.folder / "pipeline.yaml"

    def declare(self, columns: Mapping[str, Any], output: Mapping[str, Any]) -> None:
        """Write the pipeline file: the columns of the source, and what the output makes of them."""
        sink = {"postgres": {"target": f"${{env:{TARGET}}}", "schema": self.schema}}
        times = {"at": "timestamp", "arrived": "timestamp", "id": "string", "app": "string"}
        document = {
            "name": "story",
            "store": "./store",
            "source": {
                "files": {"path": "in", "order_by": "arrived"},
                "schema": {**times, **self.source, **columns},
            },
            "event": {"time": "at", "id": "id", "producer": "app"},
            "watermark": {"delay": "10s"},
            "outputs": {
                "totals": {
                    "window": {"tumbling": "1m"},
                    "late": "side_output",
                    "sinks": [sink],
                    "late_to": [sink],
                    **self.output,
                    **output,
                }
            },
        }
        self.file.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")

    def write(self, shape: Shape, stragglers: Shape | None = None) -> None:
        """The events of the next minute; with them one of two minutes ago, written as its own producer writes."""
        self.minute += 1
        at = START + timedelta(minutes=self.minute)
        rows = []
        self.values.append([])
        for nth, second in enumerate((5, 20, 50)):
            value = 100 * (self.minute + 1) + 10 * nth
            self.values[-1].append(value)
            rows.append(
                self._row(at + timedelta(seconds=second), at + timedelta(seconds=second), shape(value))
            )
        if self.minute >= 2:
            value = 7000 + self.minute
            self.late.append(value)
            happened, came = at - timedelta(seconds=90), at + timedelta(seconds=55)
            rows.append(self._row(happened, came, (stragglers or shape)(value)))
        draft = self.folder / "draft"
        draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        draft.rename(self.folder / "in" / f"{self.minute:03d}.json")

    def _row(self, at: datetime, came: datetime, values: dict[str, Any]) -> dict[str, Any]:
        came += AFTER if self.due else timedelta()
        return {
            "at": at.isoformat(),
            "arrived": came.isoformat(),
            "id": f"{at}{came}",
            "app": "ios",
            **values,
        }

    def minute_of_late(self, value: int) -> datetime:
        """The minute that a late event belongs to, by its value."""
        return START + timedelta(minutes=value - 7000 - 2)

    # What is there

    def standing(self) -> list[tuple[Any, ...]]:
        """What the store says of each window, with the sequence of the pane: a number told again would show."""
        rows = Reader(load_pipeline(self.file)).results("totals").to_pylist()
        names = ["window_start", *self.output.get("by", ()), *self.output["aggregates"], "sequence"]
        return sorted(tuple(row[name] for name in names) for row in rows)

    def in_postgres(self) -> list[tuple[Any, ...]]:
        names = ["window_start", *self.output.get("by", ()), *self.output["aggregates"], "sequence"]
        rows = self.postgres.ask(f"select {', '.join(names)} from {self.schema}.totals")
        return sorted(tuple(row.values()) for row in rows)

    def late_rows(self, what: str) -> list[Any]:
        rows = self.postgres.ask(
            f'select "{self.of_old}" as value from {self.schema}.{what} order by event_time'
        )
        return [row["value"] for row in rows]

    def late_columns(self) -> set[str]:
        """The columns that the table of the side output has now."""
        asked = (
            "select column_name from information_schema.columns where table_schema = %s and table_name = %s"
        )
        return {row["column_name"] for row in self.postgres.ask(asked, self.schema, "totals_late")}

    def await_minute(self, expected: Callable[[Story], list[tuple[Any, ...]]]) -> None:
        """Wait until the numbers of the minute before stand, and all that was late is set aside, everywhere."""
        until = monotonic() + 120
        while True:
            aside = self.postgres.ask(f"select count(*) from {self.schema}.totals_late")[0]["count"]
            here = (self.standing(), self.in_postgres(), aside)
            if here == (expected(self), expected(self), len(self.late)):
                return
            assert monotonic() < until, (here, expected(self))
            sleep(0.1)

    # Steps of the migration

    def step(self, verb: str) -> None:
        """A phase on or back, and the tables of the sinks with it. What stands is what stood."""
        before = self.standing(), self.in_postgres()
        assert self.of_old in self.late_columns() or verb == "rollback"
        done = self.cli("migrate", verb, self.migration, *self._checked(verb))
        assert (done.status, done.err.count("Traceback")) == (0, 0), done.err
        if "has not begun" not in done.out:
            applied = self.cli("migrate", "tables", self.migration, "--pipeline", self.file, "--apply")
            assert applied.status == 0, applied.err
        assert (self.standing(), self.in_postgres()) == before

    def _checked(self, verb: str) -> list[Any]:
        return ["--pipeline", self.file] if verb == "advance" else []


def migration_in(folder: Path, registry: Server, document: dict[str, Any], ready: dict[str, Any]) -> Path:
    consumers = {name: {"reader": ready} for name in document["consumers"]}
    file = folder / "migration.yaml"
    said = {**document, "registry": registry.url, "soak": AT_ONCE, "consumers": consumers}
    file.write_text(yaml.safe_dump(said, sort_keys=False), encoding="utf-8")
    return file


def fares(story: Story) -> list[tuple[Any, ...]]:
    """The true sum of every minute that is closed, told once."""
    return [
        (START + timedelta(minutes=minute), sum(story.values[minute]), 3, 0) for minute in range(story.minute)
    ]


def days(story: Story) -> list[tuple[Any, ...]]:
    """How many signed up on each day, in every minute that is closed."""
    return sorted(
        (START + timedelta(minutes=minute), day, many, 0)
        for minute in range(story.minute)
        for day, many in Counter(dated(value)["signup_date"] for value in story.values[minute]).items()
    )


@pytest.fixture
def registry(registry: Server, tmp_path: Path) -> Server:
    (tmp_path / "in").mkdir()
    return registry


PARTS = {"base": "bigint", "surge": "bigint", "tax": "bigint"}
NEW_PARTS = {f"pricing.{name}" for name in PARTS}
PAID = {"aggregates": {"fare": "sum(fare_cents)", "rides": "count(*)"}}
OF_BOTH = {
    "columns": {"paid": "coalesce(pricing.base + pricing.surge + pricing.tax, fare_cents)"},
    "aggregates": {"fare": "sum(paid)", "rides": "count(*)"},
}
WHOLE = {
    "base": "fare_cents - coalesce(pricing.surge, 0) - coalesce(pricing.tax, 0)",
    "surge": "coalesce(pricing.surge, fare_cents - fare_cents)",
    "tax": "coalesce(pricing.tax, fare_cents - fare_cents)",
}
SIGNED = {"by": ["day"], "columns": {"day": "left(signup_date, 10)"}, "aggregates": {"users": "count(*)"}}
SIGNED_EITHER = {"columns": {"day": "coalesce(left(created_at, 10), signup_date)"}}


@pytest.fixture
def rides(tmp_path: Path, postgres: Postgres, spark: SparkSession, cli: Cli, registry: Server) -> Story:
    registry.asking.register("rides-value", text(RIDE))
    document = pricing(to={"pricing": {**pricing()["to"]["pricing"], "sql": WHOLE}})
    file = migration_in(tmp_path, registry, document, avro("Ride", ("ride_id", "string")))
    source, schema = {"fare_cents": "bigint"}, f"rides_{time_ns()}"
    return Story(tmp_path, postgres, spark, cli, source, PAID, file, "fare_cents", NEW_PARTS, schema)


@pytest.fixture
def users(tmp_path: Path, postgres: Postgres, spark: SparkSession, cli: Cli, registry: Server) -> Story:
    registry.asking.register("users-value", text(USER))
    file = migration_in(tmp_path, registry, rename(), avro("User", ("user_id", "long")))
    source, schema = {"signup_date": "string"}, f"users_{time_ns()}"
    return Story(tmp_path, postgres, spark, cli, source, SIGNED, file, "signup_date", {"created_at"}, schema)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.setenv(TARGET, postgres.url_with_password)
    return calling(capsys)


def lived_through(
    story: Story,
    columns: Mapping[str, Any],
    either: Mapping[str, Any],
    shapes: tuple[Shape, Shape, Shape],
    expected: Callable[[Story], list[tuple[Any, ...]]],
    true_late: Callable[[int], Any],
) -> None:
    """All four phases and back, under one run from expand on."""
    spark, (old_shape, new_shape, both_shapes) = story.spark, shapes

    def was_late() -> list[Any]:
        return [true_late(value) for value in story.late]

    # Before it begins: the old shape alone.
    story.declare({}, {})
    for _ in range(3):
        story.write(old_shape)
        run(load_pipeline(story.file), once=True, spark=spark)
    story.await_minute(expected)
    # Expand: the registry has both shapes, and the pipeline reads whichever there is. No number changes by that.
    done = story.cli("migrate", "advance", story.migration)
    assert done.status == 0, done.err
    before = story.standing(), story.in_postgres()
    story.declare(columns, either)
    # From the window that is open on; what was late for others is not taken in by the way.
    since = to_micros(START + timedelta(minutes=story.minute))
    rebuilding.apply(load_pipeline(story.file), "totals", since=since, spark=spark)
    assert (story.standing(), story.in_postgres()) == before
    with running_beside(load_pipeline(story.file), spark):
        story.write(old_shape)
        story.await_minute(expected)
        assert story.late_rows("totals_late") == was_late()
        applied = story.cli("migrate", "tables", story.migration, "--pipeline", story.file, "--apply")
        assert applied.status == 0, applied.err
        assert story.of_new | {story.of_old} <= story.late_columns()
        story.write(both_shapes, stragglers=old_shape)  # not all producers begin at once
        story.await_minute(expected)
        story.step("advance")
        story.due = True
        for phase in (Phase.DUAL_WRITE, Phase.MIGRATE):
            story.write(both_shapes)
            story.await_minute(expected)
            story.step("advance")
            assert story.late_rows("totals_late_both_shapes") == was_late(), phase
            assert (story.of_old in story.late_columns()) == (
                phase is Phase.DUAL_WRITE
            )  # gone in contract alone
        # Contract: the new shape alone; and an event of the oldest producer, which sat on a phone for weeks.
        story.write(new_shape, stragglers=old_shape)
        story.await_minute(expected)
        story.write(new_shape)
        story.await_minute(expected)
        applied = story.cli("migrate", "tables", story.migration, "--pipeline", story.file, "--apply")
        assert applied.status == 0, applied.err
        assert story.late_rows("totals_late_both_shapes") == was_late()
        # And back, phase by phase.
        story.step("rollback")
        assert story.of_new | {story.of_old} <= story.late_columns()
        assert story.late_rows("totals_late") == was_late()
        for _ in (Phase.DUAL_WRITE, Phase.EXPAND, None):
            story.write(both_shapes)
            story.await_minute(expected)
            story.step("rollback")
        story.write(old_shape)
        story.await_minute(expected)
        assert story.late_rows("totals_late") == was_late()
    assert check_ledger(load_pipeline(story.file), spark) == []


@pytest.mark.long
def test_a_fare_becomes_its_parts_under_a_running_pipeline(rides: Story) -> None:
    lived_through(rides, {"pricing": PARTS}, OF_BOTH, (old, new, both), fares, lambda value: value)
    # History gets the new field by a rebuild: an aggregate more, from the first window on, and what was late with it.
    columns = {**OF_BOTH["columns"], "base": "coalesce(pricing.base, fare_cents - 30)"}
    aggregates = {**OF_BOTH["aggregates"], "base": "sum(base)"}
    rides.declare({"pricing": PARTS}, {"columns": columns, "aggregates": aggregates})
    rebuilding.apply(load_pipeline(rides.file), "totals", since=to_micros(START), spark=rides.spark)
    rows = Reader(load_pipeline(rides.file)).results("totals").to_pylist()
    for row, values in zip(sorted(rows, key=lambda row: row["window_start"]), rides.values, strict=False):
        late = [value for value in rides.late if row["window_start"] == rides.minute_of_late(value)]
        whole = [*values, *late]
        assert (row["fare"], row["rides"], row["base"]) == (
            sum(whole),
            len(whole),
            sum(whole) - 30 * len(whole),
        )
    names = "window_start, fare, rides, base"
    table = rides.postgres.ask(f"select {names} from {rides.schema}.totals order by 1")
    assert table == [{name: row[name] for name in names.split(", ")} for row in rows]
    assert check_ledger(load_pipeline(rides.file), rides.spark) == []


@pytest.mark.long
def test_a_date_becomes_a_moment_under_a_running_pipeline(users: Story) -> None:
    shapes = dated, timed, dated_and_timed
    true_late = lambda value: dated(value)["signup_date"]  # noqa: E731
    lived_through(users, {"created_at": "string"}, SIGNED_EITHER, shapes, days, true_late)
