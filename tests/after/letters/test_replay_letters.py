"""Dead letters are repaired and taken in again: once each, judged by the watermark in force now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from after.letters.letters_kit import events, json_store, letters, open_and_closed, row, totals
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.replay.replaying import replay
from latecomer.api import reconcile, replay_dead_letters
from latecomer.config.models import Pipeline
from latecomer.config.operation import Retention
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.engine.upkeep.compacting import compact
from latecomer.model.dead_letters import DELIVER_AGAIN
from latecomer.model.durations import to_micros
from latecomer.model.ledger import Entry
from latecomer.model.oracle.arrivals import Arrival, Repaired
from latecomer.model.oracle.interpreter import interpret
from latecomer.store.store import open_store
from source.source_kit import pipeline_in, run_once, write_text


def at(*clock: int) -> datetime:
    return datetime(2026, 11, 8, *clock, tzinfo=UTC)


def by_the_oracle(
    pipeline: Pipeline, files: Mapping[str, Sequence[Mapping[str, Any]]], repaired: Mapping[str, datetime]
) -> list[Entry]:
    """What the oracle has in the ledger for a replay after all files, in which these rows get a time."""

    def read(row: Mapping[str, Any], now: datetime | None = None) -> Arrival:
        arrived = to_micros(datetime.fromisoformat(row["arrived"]))
        dead = not row["at"].endswith("Z") and now is None
        happened = 0 if dead else to_micros(now or datetime.fromisoformat(row["at"]))
        return Arrival(happened, arrived, "", row, row["id"], dead)

    batches = [[read(row) for row in rows] for rows in files.values()]
    rows = {row["id"]: row for each in files.values() for row in each}
    again = Repaired([(read(rows[name]), read(rows[name], time)) for name, time in repaired.items()])
    outcome = interpret([*batches, again], pipeline.watermark, pipeline.outputs, measures=pipeline.ledger)
    return [entry for entry in outcome.ledger if entry.batch == len(batches)]


def lines_of(entries: Sequence[Entry]) -> set[tuple[Any, ...]]:
    def fates(entry: Entry) -> tuple[Any, ...]:
        return tuple(sorted((fate.value, amount) for fate, amount in entry.fates.items() if amount))

    return {
        (each.batch, each.output, each.unit, each.received, each.late_at_source, fates(each))
        for each in entries
    }


@pytest.mark.long
def test_a_time_in_another_format(spark: SparkSession, tmp_path: Path) -> None:
    bad = [row(2, 0, at="08/11/2026 14:00"), row(3, 9, at="08/11/2026 14:09"), row(4, 9, at="the eighth")]
    files = {"0.json": [row(1, 0), bad[0]], "1.json": [row(5, 9), *bad[1:]], "2.json": [row(6, 10)]}
    pipeline = json_store(tmp_path, spark, files)
    assert totals(pipeline)["totals"] == {"received": 6, "on_time": 3, "dead_letter": 3}

    fix = {"format": "dd/MM/yyyy HH:mm"}
    tried = replay_dead_letters(pipeline, fix=fix, dry_run=True, spark=spark)
    assert (tried.picked, tried.events, tried.batch) == (3, 2, None)
    assert tried.problems == {"unreadable_event_time": 1}
    assert totals(pipeline)["totals"]["dead_letter"] == 3

    done = replay_dead_letters(pipeline, fix=fix, spark=spark)
    assert (done.picked, done.events, done.batch, done.completed) == (3, 2, 3, None)
    assert [each["raw"] for each in done.still_dead.to_pylist()] == tried.still_dead["raw"].to_pylist()
    assert lines_of(done.entries) == lines_of(by_the_oracle(pipeline, files, {"t2": at(14), "t3": at(14, 9)}))
    # The minute of the first has closed; nothing was late when it first came.
    assert totals(pipeline)["totals"] == {"received": 6, "on_time": 4, "late_accepted": 1, "dead_letter": 1}
    assert totals(pipeline)["strict"] == {"received": 6, "on_time": 4, "dropped": 1, "dead_letter": 1}
    assert open_and_closed(pipeline) == {"amul 14:00": 2, "amul 14:09": 2, "amul 14:10": 1}
    assert len(letters(pipeline)) == 1

    arrived = {
        each["event_id"]: (each["arrival_time"], each["first_arrival_time"]) for each in events(pipeline)
    }
    now = at(14, 10, 1)
    assert arrived["t2"] == (now, at(14, 0, 1))
    assert arrived["t3"] == (now, at(14, 9, 1))
    assert arrived["t1"][1] is None

    again = replay_dead_letters(pipeline, fix=fix, spark=spark)
    assert (again.picked, again.events, again.batch) == (1, 0, None)
    assert check_ledger(pipeline, spark) == []
    replayed = replay(pipeline, spark=spark)
    assert replayed.equal, replayed.summary.to_pylist()

    forgetful = pipeline.model_copy(update={"retention": Retention(late="30s")})
    compact(forgetful)
    assert letters(forgetful) == [], "retention has removed them, repaired or not"
    assert check_ledger(forgetful, spark) == []
    assert replay(forgetful, spark=spark).equal


@pytest.mark.parametrize(
    "on_the_way", [False, pytest.param(True, marks=pytest.mark.long)], ids=["at the end", "on the way"]
)
def test_each_kind_of_fix(spark: SparkSession, tmp_path: Path, on_the_way: bool) -> None:
    """What is wrong in one way after the other is repaired; then all accounts still agree."""
    cut_off = json.dumps(row(5, 3))[:-1]
    files = {
        "0.json": [
            row(1, 0),
            row(2, 1, paise="1,250"),
            row(3, 2, at="1794146520000"),
            "{broken",
            cut_off,
            row(1, 3, paise="7"),
            row(8, 4, shop="bata", at=None) | {"at": None},
            row(9, 4, paise="a lot"),
        ],
        "1.json": [row(6, 3), row(7, 4)],
    }
    pipeline = json_store(tmp_path, spark, files)
    assert totals(pipeline)["totals"] == {"received": 10, "on_time": 3, "dead_letter": 7}
    ask = partial(replay_dead_letters, pipeline, spark=spark)

    # A column in SQL: what it makes has to fit; another id would have been an event.
    cast = {"column:paise": "replace(paise, ',', '')"}
    done = ask(where="reason = 'unreadable' and raw like '{\"at%}'", fix=cast)
    assert (done.picked, done.events, done.batch) == (3, 2, 2)
    (still,) = done.still_dead.to_pylist()
    assert still["detail"] == 'column paise: the fix makes "a lot", which is not a bigint'
    assert ("unreadable", still["detail"]) in letters(pipeline), "the newest reason is told"
    assert totals(pipeline)["totals"] == {
        "received": 10,
        "on_time": 3,
        "late_accepted": 1,
        "duplicate": 1,
        "dead_letter": 5,
    }

    # A time in another unit, and a text in SQL.
    assert ask(where="reason = 'unreadable_event_time'", fix={"unit": "ms"}).events == 1
    assert ask(where="raw not like '%}' and raw like '{\"at%'", fix={"raw": "concat(raw, '}')"}).events == 1
    # An event time in SQL, as a timestamp.
    moment = {"column:at": "timestamp_seconds(1794146640 + length(shop))", "column:shop": "upper(shop)"}
    assert ask(where="reason = 'no_event_time'", fix=moment).events == 1

    # A corrected text, by the name of its dead letter.
    (broken,) = [each for each in Reader(pipeline).dead_letters().to_pylist() if each["raw"] == "{broken"]
    text = {name: broken[name] for name in ("batch", "origin", "position")}
    corrected = [{**text, "raw": json.dumps(row(10, 4, paise=11))}]
    assert ask(fix={"text": corrected}).events == 1
    again = ask(fix={"text": corrected})
    assert (again.picked, again.batch) == (0, None), "it is no dead letter any more"

    assert totals(pipeline)["totals"] == {
        "received": 10,
        "on_time": 7,
        "late_accepted": 1,
        "duplicate": 1,
        "dead_letter": 1,
    }
    taken = {each["event_id"]: each for each in events(pipeline) if each["first_arrival_time"]}
    assert sorted(taken) == ["t10", "t2", "t3", "t5", "t8"]
    assert taken["t2"]["paise"] == 1250
    assert (taken["t3"]["event_time"], taken["t8"]["event_time"]) == (at(14, 2), at(14, 4, 4))
    assert taken["t8"]["shop"] == "BATA"
    before = len(open_store(pipeline).repairs.query("select * from t"))
    assert ask(fix=cast).batch is None, "what is wrong as before is no news"
    assert len(open_store(pipeline).repairs.query("select * from t")) == before

    if on_the_way:
        assert check_ledger(pipeline, spark) == []
        replayed = replay(pipeline, spark=spark)
        assert replayed.equal, replayed.summary.to_pylist()
    assert replay(pipeline, one_shot=True, spark=spark).equal
    run(pipeline, drain=True, once=True, spark=spark)
    found = reconcile(pipeline, "totals", "log", spark=spark)
    assert found.equal, found
    # What was too late for this output when it was repaired is in the log: a rebuild takes it in.
    assert rebuilding.apply(pipeline, "strict", spark=spark).rebuild.record.counts["changed"] == 1
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


@pytest.mark.long
def test_lines_of_csv_under_the_header_of_their_file(spark: SparkSession, tmp_path: Path) -> None:
    """A tick an event, sessions, no column of arrival; folders that say a column."""
    pipeline = pipeline_in(
        tmp_path,
        files={"format": "csv", "max_files_per_batch": 1},
        schema={"at": "string", "shop": "string", "amount": "decimal(10,2)", "day": "string"},
        watermark={"every": "event", "delay": "1m"},
        outputs={
            "sessions": {
                "window": {"session": "5m"},
                "by": ["shop"],
                "aggregates": {"amount": "sum(amount)"},
            },
            "days": {"window": {"tumbling": "1m"}, "by": ["day"], "aggregates": {"n": "count(*)"}},
        },
        ledger=["amount"],
    )
    head, other = "shop,amount,at", "at,amount,shop,extra"
    first = [head, "amul,1.50,2026-11-08T14:00:00Z", "bata,2.5x,2026-11-08T14:01:00Z", "amul,9"]
    write_text(tmp_path, "day=8/0.csv", "\n".join(first) + "\n", 0)
    second = [
        other,
        "2026-11-08T14:02:00Z,3.25,bata,-",
        "14h03,4.00,bata,-",
        "2026-11-08T14:04:00Z,one,bata,-",
    ]
    write_text(tmp_path, "day=8/1.csv", "\n".join(second) + "\n", 1)
    write_text(tmp_path, "day=8/2.csv", "at,at\n1,2\n", 2)
    run_once(pipeline, spark)
    found = Reader(pipeline).dead_letters().to_pylist()
    assert [each["reason"] for each in found] == [
        "unreadable",
        "unreadable",
        "unreadable_event_time",
        "unreadable",
        "unreadable_file",
    ]
    ask = partial(replay_dead_letters, pipeline, spark=spark)

    digits = "nullif(regexp_replace(amount, '[a-z]', ''), '')"
    done = ask(where="reason = 'unreadable'", fix={"column:amount": digits})
    assert [each["reason"] for each in done.still_dead.to_pylist()] == ["unreadable"]
    assert "2 fields, and the file has 3 columns" in done.still_dead["detail"][0].as_py()
    assert (done.picked, done.events) == (3, 2)
    made = {"column:at": "replace(concat('2026-11-08T', at, ':00Z'), 'h', ':')"}
    assert ask(where="reason = 'unreadable_event_time'", fix=made).events == 1
    (short, _) = Reader(pipeline).dead_letters().to_pylist()
    text = {name: short[name] for name in ("batch", "origin", "position")}
    header = tmp_path / "in" / "day=8" / "0.csv"
    header.rename(tmp_path / "away.csv")
    headless, whole = ask(dry_run=True).still_dead["detail"].to_pylist()
    assert headless.startswith("the header of its file cannot be read any more;")
    assert whole == f"it stands for a whole file; {DELIVER_AGAIN}"
    (tmp_path / "away.csv").rename(header)
    tried = ask(fix={"text": [{**text, "raw": "amul,9"}]}, dry_run=True)
    assert tried.problems == {"unreadable": 1}
    assert ask(fix={"text": [{**text, "raw": "amul,9,2026-11-08T14:03:30Z"}]}).events == 1

    taken = {str(each["event_time"])[11:19]: each for each in events(pipeline) if each["first_arrival_time"]}
    assert {time: each["amount"] for time, each in taken.items()} == {
        "14:01:00": Decimal("2.50"),
        "14:03:00": Decimal("4.00"),
        "14:03:30": Decimal("9.00"),
        "14:04:00": None,
    }
    assert {each["day"] for each in taken.values()} == {"8"}
    assert {each["origin"] for each in events(pipeline)} == {"day=8/0.csv", "day=8/1.csv"}
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    other_settings = replay(
        pipeline, changes={"watermark.every": "1s", "watermark.delay": "10m"}, spark=spark
    )
    assert sum(row["replayed"] for row in other_settings.fates.to_pylist() if row["unit"] == "events") == 14
