"""Tables of sinks through the phases of a migration: whoever reads the view sees no phase begin or end."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from latecomer.after.migrate.sink_tables import SinkTable, sink_tables
from latecomer.errors import LatecomerError, SinkError
from latecomer.schemas.migrations import Migration, MigrationState, Phase
from latecomer.sink.keeper import SinkKeeper, check_sinks
from postgres_kit import Postgres
from schemas.migrations.migration_kit import made, pricing, rename
from sink.feeding_kit import COLUMNS, Fed

FIRST = COLUMNS.replace("}", ", fare_cents: bigint, signup_date: string}")
PARTS = ("pricing.base", "pricing.surge", "pricing.tax")
NEW = ", ".join(["", *(f"'{name}': bigint" for name in PARTS), "created_at: string}"])
BOTH = FIRST.replace("}", NEW)
TARGET = "LATECOMER_TEST_TARGET"
LATE = "[{{postgres: {{target: '${{env:{}}}', schema: {}}}}}, {{sqlite: late.db}}, {{delta: late}}]"
WHOLE = made(
    pricing(
        to={
            "pricing": {
                **pricing()["to"]["pricing"],
                "sql": {
                    "base": "fare_cents - coalesce(pricing.surge, 0) - coalesce(pricing.tax, 0)",
                    "surge": "coalesce(pricing.surge, fare_cents - fare_cents)",
                    "tax": "coalesce(pricing.tax, fare_cents - fare_cents)",
                },
            }
        }
    )
)


class Tables:
    """A pipeline with side output in three databases."""

    def __init__(self, folder: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(TARGET, postgres.url_with_password)
        self.folder, self.postgres = folder, postgres
        self.schema = f"t{abs(hash(str(folder))) % 10**12}"
        self.fed = self.with_columns(FIRST)
        self.batch = -1

    def with_columns(self, columns: str) -> Fed:
        self.fed = Fed(self.folder, late_to=LATE.format(TARGET, self.schema), columns=columns)
        return self.fed

    def set_aside(self, **values: Any) -> None:
        """A late event, which is in every table after it."""
        self.batch += 1
        self.fed.set_aside(self.batch, late=1, **values)
        keeper = SinkKeeper(self.fed.store)
        keeper.start(self.batch)
        keeper.finish()
        keeper.close()

    def in_phase(self, migration: Migration, phase: Phase, *, apply: bool = True) -> list[SinkTable]:
        state = MigrationState(migration.migration, 1, phase=phase)
        return list(sink_tables(self.fed.store, migration, state, apply=apply))

    def read(self, what: str, *names: str) -> dict[str, list[tuple[Any, ...]]]:
        """Some columns of each row, by batch, in the table or the view of each database."""
        named = ", ".join(f'"{name}"' for name in names)
        rows = self.postgres.ask(f'select {named} from {self.schema}."{what}" order by batch, window_start')
        found = {"postgres": [tuple(row.values()) for row in rows]}
        with closing(sqlite3.connect(self.folder / "late.db")) as database:
            asked = database.execute(f'select {named} from "{what}" order by batch, window_start')
            found["sqlite"] = asked.fetchall()
        return found

    def columns(self) -> dict[str, set[str]]:
        rows = self.postgres.ask(
            "select column_name from information_schema.columns where table_schema = %s and table_name = 'totals_late'",
            self.schema,
        )
        with closing(sqlite3.connect(self.folder / "late.db")) as database:
            lite = {row[1] for row in database.execute("pragma table_info(totals_late)")}
        delta = {field.name for field in DeltaTable(str(self.folder / "late")).schema().fields}
        return {"postgres": {row["column_name"] for row in rows}, "sqlite": lite, "delta": delta}

    def delta(self, *names: str) -> list[tuple[Any, ...]]:
        rows = DeltaTable(str(self.folder / "late")).to_pyarrow_table()
        rows = rows.sort_by([("batch", "ascending"), ("window_start", "ascending")])
        return [tuple(row[name] for name in names) for row in rows.to_pylist()]


@pytest.fixture
def tables(tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> Tables:
    return Tables(tmp_path, postgres, monkeypatch)


def ride(fare: int | None, *parts: int | None) -> dict[str, Any]:
    return {"fare_cents": fare, **dict(zip(PARTS, parts or (None,) * 3, strict=True))}


def test_a_fare_becomes_its_parts_and_comes_back(tables: Tables) -> None:
    tables.set_aside(fare_cents=900)
    tables.with_columns(BOTH)
    check_sinks(tables.fed.store)
    tables.set_aside(**ride(901))
    (first, *_) = tables.in_phase(WHOLE, Phase.EXPAND, apply=False)
    assert str(first.steps) == "its columns stay as they are"
    tables.in_phase(WHOLE, Phase.EXPAND)
    tables.set_aside(**ride(1250, 1000, 150, 100))
    twice = [900, 900, 901, 901, 1250, 1250]
    seen = tables.read("totals_late_both_shapes", "fare_cents")
    assert seen == {kind: [(each,) for each in twice] for kind in ("postgres", "sqlite")}
    for phase in (Phase.DUAL_WRITE, Phase.MIGRATE):
        tables.in_phase(WHOLE, phase)
        assert tables.read("totals_late_both_shapes", "fare_cents") == seen
    # The last phase: the column goes, and the view has it still.
    planned = tables.in_phase(WHOLE, Phase.CONTRACT, apply=False)
    assert [each.steps.drops for each in planned] == [("fare_cents",)] * 3
    assert all("fare_cents" in names for names in tables.columns().values())
    tables.postgres.ask(f"grant select on {tables.schema}.totals_late_both_shapes to public")
    with closing(SinkKeeper(tables.fed.store)) as running:  # a run that goes on
        running.start(tables.batch)
        tables.in_phase(WHOLE, Phase.CONTRACT)
        assert not any("fare_cents" in names for names in tables.columns().values())
        assert tables.read("totals_late_both_shapes", "fare_cents") == seen
        tables.batch += 1
        tables.fed.set_aside(tables.batch, late=1, **ride(None, 500, 50, 5))
        running.announce(tables.batch)
        running.finish()
    seen = {kind: [*rows, (555,), (555,)] for kind, rows in seen.items()}
    assert tables.read("totals_late_both_shapes", "fare_cents") == seen
    # One that sat on a phone since before: only the store has its value, until the tables are brought on again.
    tables.set_aside(**ride(444))
    assert tables.read("totals_late_both_shapes", "fare_cents")["postgres"][-1] == (None,)
    tables.in_phase(WHOLE, Phase.CONTRACT)
    seen = {kind: [*rows, (444,), (444,)] for kind, rows in seen.items()}
    assert tables.read("totals_late_both_shapes", "fare_cents") == seen
    check_sinks(tables.fed.store)  # the next run does not bring it back
    assert not any("fare_cents" in names for names in tables.columns().values())
    assert [each.steps.changes_table for each in tables.in_phase(WHOLE, Phase.CONTRACT)] == [False] * 3
    # And back: as the store has it, and computed where that has none.
    tables.in_phase(WHOLE, Phase.MIGRATE)
    assert tables.read("totals_late_both_shapes", "fare_cents") == seen
    assert tables.read("totals_late", "fare_cents") == seen
    assert tables.delta("fare_cents") == seen["sqlite"]
    tables.set_aside(**ride(7, 4, 2, 1))
    assert tables.read("totals_late", "fare_cents")["postgres"][-1] == (7,)
    assert tables.delta("fare_cents", *PARTS)[-1] == (7, 4, 2, 1)
    grants = "select relacl::text as acl from pg_class where oid = %s::regclass"
    assert "=r/" in tables.postgres.ask(grants, f"{tables.schema}.totals_late_both_shapes")[0]["acl"]
    check_sinks(tables.fed.store)


def test_a_date_becomes_a_moment_and_comes_back(tables: Tables) -> None:
    migration = made(rename())
    tables.set_aside(signup_date="2026-04-25")
    tables.with_columns(BOTH)
    tables.set_aside(signup_date="2026-04-26", created_at="2026-04-26T08:30:00Z")
    names = ("signup_date", "created_at")
    first = [("2026-04-25", "2026-04-25T00:00:00Z")] * 2 + [("2026-04-26", "2026-04-26T08:30:00Z")] * 2
    for phase in (*Phase, *reversed(list(Phase))):
        tables.in_phase(migration, phase)
        found = tables.read("totals_late_both_shapes", *names)
        assert found == {"postgres": first, "sqlite": first}, phase
    # What the new shape says of rows of the old one was filled in before the old column went.
    assert tables.delta(*names) == first
    assert tables.read("totals_late", *names)["postgres"] == first


class Killed(BaseException):
    pass


def test_what_was_interrupted_is_done_by_the_next_call(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Postgres and SQLite have one transaction each. A Delta table has two commits, and dies between them."""

    def dies(*_: Any, **__: Any) -> None:
        raise Killed

    tables.with_columns(BOTH)
    tables.set_aside(**ride(1250, 1000, 150, 100))
    second = {
        Phase.CONTRACT: "latecomer.sink.both_shapes_tables.write_deltalake",
        Phase.MIGRATE: "latecomer.sink.both_shapes_tables.DeltaMigrated._keep_left_out",
    }
    for phase, is_there in ((Phase.CONTRACT, False), (Phase.MIGRATE, True)):
        with monkeypatch.context() as patched:
            patched.setattr(second[phase], dies)
            with pytest.raises(Killed):
                tables.in_phase(WHOLE, phase)
        tables.set_aside(**ride(7, 4, 2, 1))  # a run in between
        tables.in_phase(WHOLE, phase)
        assert {"fare_cents" in names for names in tables.columns().values()} == {is_there}, phase
    assert tables.delta("fare_cents") == [(1250,)] * 2 + [(7,)] * 4
    assert tables.read("totals_late", "fare_cents")["postgres"] == [(1250,)] * 2 + [(7,)] * 4


def test_nothing_is_dropped_that_could_not_be_shown_any_more(tables: Tables) -> None:
    migration = made(pricing())  # the old shape does not determine the new one
    tables.set_aside(fare_cents=900)
    tables.with_columns(BOTH)
    tables.set_aside(**ride(1250, 1000, 150, 100))
    with pytest.raises(
        SinkError,
        match="2 rows have fare_cents and nothing from which it could be computed, so it is not dropped",
    ):
        tables.in_phase(migration, Phase.CONTRACT)
    assert all("fare_cents" in names for names in tables.columns().values())
    assert os.path.exists(tables.folder / "late.db")


def test_what_cannot_be_is_said(tables: Tables) -> None:
    with pytest.raises(LatecomerError, match="has not begun, so tables stay as they are"):
        list(sink_tables(tables.fed.store, WHOLE, MigrationState("m"), apply=True))
    with pytest.raises(LatecomerError, match=r"the pipeline has no column pricing\.base"):
        tables.in_phase(WHOLE, Phase.EXPAND)
    tables.with_columns(BOTH)
    with pytest.raises(SinkError, match=r"there is no t\d+\.totals_late yet; run the pipeline first"):
        tables.in_phase(WHOLE, Phase.EXPAND)
    halves = made(rename(**{"from": {"signup_date": "upper(created_at)"}}))
    with pytest.raises(
        LatecomerError, match=r"late_to\.0: the expression of signup_date holds upper, which may"
    ):
        tables.in_phase(halves, Phase.EXPAND)
