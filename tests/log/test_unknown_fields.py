"""Fields that no column is declared for: kept with the event, and put in their place once one is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import latecomer
from cli.cli_kit import calling
from latecomer.after.rebuild import rebuilding
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.log import filling
from latecomer.store.store import Store, open_store
from latecomer.store.unknown_fields import UnknownSeen, unknown_in_last

SCHEMA: dict[str, Any] = {"at": "string", "paise": "int", "pricing": {"base": "bigint"}}
MINUTE = {"tumbling": "1m"}
TOTALS = {"window": MINUTE, "aggregates": {"total": "sum(paise)"}}


def pipeline_in(
    folder: Path, schema: dict[str, Any] = SCHEMA, kind: str = "json", **changes: Any
) -> Pipeline:
    (folder / "in").mkdir(exist_ok=True)
    return Pipeline.model_validate(
        {
            "name": "unknown",
            "store": "store",
            "base": folder,
            "source": {
                "files": {"path": "in", "format": kind},
                "schema": schema,
                "unknown_fields": changes.pop("unknown_fields", "keep"),
            },
            "event": {"time": "at", "id": "at"},
            "watermark": {"delay": "1h"},
            "outputs": {"totals": TOTALS},
            **changes,
        }
    )


def at(second: int) -> str:
    return f"2026-11-08T14:00:{second:02d}Z"


def write(folder: Path, name: str, *lines: str) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("".join(line + "\n" for line in lines))


def kept_in(pipeline: Pipeline, columns: str = "unknown_fields") -> list[Any]:
    rows = open_store(pipeline).events.query(f"select {columns} from t order by event_time").to_pylist()
    return [tuple(row.values()) if len(row) > 1 else next(iter(row.values())) for row in rows]


def totals(pipeline: Pipeline, output: str = "totals") -> list[Any]:
    return [row["total"] for row in latecomer.Reader(pipeline).results(output).to_pylist()]


LINES = (
    f'{{"at":"{at(0)}","paise":1,"pricing":{{"base":5}}}}',
    f'{{"at":"{at(1)}","tip":123456789012345678901234567890, "paise":2,"n":1.10,"n":"\\u00e9"}}',
    f'{{"at":"{at(2)}","paise":3,"tip":7,"pricing":{{"base":1,"tax":{{"rate":1.50}}}}}}',
    '{"paise":4,"tip":8}',
)
WIDER = {
    **SCHEMA,
    "paise": "bigint",
    "tip": "bigint",
    "pricing": {"base": "bigint", "tax": {"rate": "decimal(4,2)"}},
}


def test_what_was_kept_fills_a_column_that_is_declared_later(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, "a.json", *LINES)
    first = pipeline_in(tmp_path)
    report = run(first, once=True, spark=spark)
    assert report.unknown == UnknownSeen(2, ("tip", "n", "pricing.tax"))
    assert kept_in(first) == [
        None,
        '{"tip":123456789012345678901234567890, "n":1.10,"n":"\\u00e9"}',
        '{"tip":7,"pricing":{"base":1,"tax":{"rate":1.50}}}',
    ]
    assert unknown_in_last(open_store(first)) == report.unknown
    letter = open_store(first).dead_letters.query("select raw from t").to_pylist()[0]["raw"]
    assert json.loads(letter) == {"at": None, "paise": 4, "pricing.base": None, "tip": 8}

    report = run(pipeline_in(tmp_path, WIDER), once=True, spark=spark)
    assert report.filled == filling.FilledColumns(("pricing.tax.rate", "tip"), 1, 1)
    rows = kept_in(first, 'tip, cast("pricing.tax.rate" as varchar), unknown_fields is null')
    assert rows == [(None, None, True), (None, None, False), (7, "1.50", False)]
    assert unknown_in_last(open_store(pipeline_in(tmp_path, WIDER))) == UnknownSeen(2, ("n",))
    file = tmp_path / "pipeline.json"
    file.write_text(
        json.dumps(
            {
                "name": "unknown",
                "store": "store",
                "source": {"files": {"path": "in"}, "schema": WIDER, "unknown_fields": "keep"},
                "event": {"time": "at", "id": "at"},
                "watermark": {"delay": "1h"},
                "outputs": {"totals": TOTALS},
            }
        )
    )
    outcome = "in the last 10 batches, 2 events have fields that are no columns (n)"
    assert outcome in calling(capsys)("status", str(file)).err


@pytest.mark.long
def test_a_rebuild_sees_what_was_kept(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.json", *LINES)
    run(pipeline_in(tmp_path), once=True, spark=spark)
    changed = {"totals": {**TOTALS, "aggregates": {"total": "sum(tip)"}}}
    wider = pipeline_in(tmp_path, WIDER, outputs=changed)
    applied = rebuilding.apply(wider, "totals", spark=spark)
    assert applied.batch is not None
    write(tmp_path, "b.json", f'{{"at":"{at(3)}","paise":{2**40},"tip":5}}')
    run(wider, drain=True, spark=spark)
    assert kept_in(wider, "paise") == [1, 2, 3, 2**40]
    rows = kept_in(wider, 'tip, cast("pricing.tax.rate" as varchar), unknown_fields is null')
    assert rows == [(None, None, True), (None, None, False), (7, "1.50", False), (5, None, True)]
    assert totals(wider) == [12]
    assert check_ledger(wider, spark) == []
    assert latecomer.replay(wider, spark=spark).equal
    assert latecomer.explain(wider, "totals", "2026-11-08T14:00Z").reconciled
    assert latecomer.reconcile(wider, "totals", "log", spark=spark).equal


def write_rows(folder: Path, kind: str, name: str, rows: list[dict[str, Any]]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    file = folder / "in" / f"{name}.{kind}"
    names = list(dict.fromkeys(name for row in rows for name in row))
    match kind:
        case "json":
            file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        case "csv":
            lines = [names, *([row.get(name, "") for name in names] for row in rows)]
            file.write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
        case "parquet":
            pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), file)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_every_format_keeps_what_is_unknown(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    rows = [
        {"at": at(0), "paise": 1, "tip": 5, "fee": 2.5, "who": "a b"},
        {"at": at(1), "paise": 2, "tip": 6, "fee": 3.5, "who": 'é"'}
        if kind != "csv"
        else {"at": at(1), "paise": 2},
        {"at": at(2), "paise": 3},
    ]
    write_rows(tmp_path, kind, "a", rows)
    schema = {"at": "string", "paise": "bigint"}
    first = pipeline_in(tmp_path, schema, kind)
    run(first, once=True, spark=spark)
    kept = [None if text is None else json.loads(text) for text in kept_in(first)]
    text = {"tip": "5", "fee": "2.5", "who": "a b"}
    second = None if kind == "csv" else {"tip": 6, "fee": 3.5, "who": 'é"'}
    assert kept == [text if kind == "csv" else {"tip": 5, "fee": 2.5, "who": "a b"}, second, None]

    run(pipeline_in(tmp_path, {**schema, "tip": "bigint", "who": "int"}, kind), once=True, spark=spark)
    wider = pipeline_in(tmp_path, {**schema, "tip": "bigint", "who": "int", "fee": "double"}, kind)
    run(wider, drain=True, spark=spark)
    tip, fee = (None, None) if kind == "csv" else (6, 3.5)
    assert kept_in(wider, "tip, fee, who") == [(5, 2.5, None), (tip, fee, None), (None, None, None)]
    assert check_ledger(wider, spark) == []
    assert latecomer.replay(wider, spark=spark).equal


@pytest.mark.long
@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_a_record_with_an_unknown_field_may_be_a_dead_letter(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    write_rows(tmp_path, kind, "a", [{"at": at(0), "paise": 1}, {"at": at(1), "paise": 2, "tip": 5}])
    schema = {"at": "string", "paise": "bigint"}
    strict = pipeline_in(tmp_path, schema, kind, unknown_fields="dead_letter")
    run(strict, once=True, spark=spark)
    letters = open_store(strict).dead_letters.query("select reason, raw, detail from t").to_pylist()
    assert [letter["reason"] for letter in letters] == ["unknown_fields"]
    assert letters[0]["detail"].startswith("no column is declared for tip; declare it")
    if kind == "csv":
        assert letters[0]["raw"] == f"{at(1)},2,5"
    else:
        assert json.loads(letters[0]["raw"]) == {"at": at(1), "paise": 2, "tip": 5}

    kept = pipeline_in(tmp_path, schema, kind)
    replayed = latecomer.replay_dead_letters(kept, spark=spark)
    assert replayed.events == 1
    assert kept_in(kept) == [None, '{"tip":"5"}' if kind == "csv" else kept_in(kept)[1]]
    assert json.loads(kept_in(kept)[1])["tip"] in (5, "5")
    run(kept, drain=True, spark=spark)
    assert totals(kept) == [3]
    assert check_ledger(kept, spark) == []


@pytest.mark.long
def test_each_of_several_sources_fills_its_own_events(spark: SparkSession, tmp_path: Path) -> None:
    def several(**more: str) -> Pipeline:
        schema = {"at": "string", "rupees": "bigint", **more}
        sources = {
            name: {
                "files": {"path": name, "format": kind},
                "schema": schema,
                "unknown_fields": rule,
                "columns": {"paise": "rupees"},
            }
            for name, kind, rule in [
                ("phones", "json", "keep"),
                ("tills", "csv", "keep"),
                ("old", "json", "ignore"),
            ]
        }
        return Pipeline.model_validate(
            {
                "name": "several",
                "store": "store",
                "base": tmp_path,
                "sources": sources,
                "event": {"time": "at", "id": "at"},
                "watermark": {"delay": "1h"},
                "outputs": {"totals": TOTALS},
            }
        )

    for name in ("phones", "tills", "old"):
        (tmp_path / name).mkdir()
    (tmp_path / "phones" / "a.json").write_text(f'{{"at":"{at(0)}","rupees":1,"tip":5,"paise":9}}\n')
    (tmp_path / "tills" / "a.csv").write_text(f"at,rupees,tip\n{at(1)},2,+6\n{at(2)},3,six\n")
    (tmp_path / "old" / "a.json").write_text(f'{{"at":"{at(3)}","rupees":4,"tip":7}}\n')
    run(several(), once=True, spark=spark)
    assert kept_in(several()) == ['{"tip":5,"paise":9}', '{"tip":"+6"}', '{"tip":"six"}', None]
    wider = several(tip="bigint")
    report = run(wider, drain=True, spark=spark)
    assert (report.filled.columns, report.filled.events, report.filled.unread) == (("tip",), 2, 1)
    assert kept_in(wider, "source, tip, paise") == [
        ("phones", 5, 1),
        ("tills", 6, 2),
        ("tills", None, 3),
        ("old", None, 4),
    ]
    assert check_ledger(wider, spark) == []
    assert latecomer.replay(wider, spark=spark).equal


@pytest.mark.long
def test_what_stops_the_filling_is_made_up_for_by_the_next_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for nth in range(3):
        write(tmp_path, f"{nth}.json", f'{{"at":"{at(nth)}","paise":1,"tip":{nth}}}')
        run(pipeline_in(tmp_path), once=True, spark=spark)
    wider = pipeline_in(tmp_path, {**SCHEMA, "tip": "bigint"})
    monkeypatch.setattr(filling, "GROUP_BYTES", 1)
    with monkeypatch.context() as stopped:
        stopped.setattr(Store, "pin", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            run(wider, once=True, spark=spark)
    run(wider, drain=True, spark=spark)
    assert kept_in(wider, "batch, tip") == [(0, 0), (1, 1), (2, 2)]
    assert totals(wider) == [3]
    assert check_ledger(wider, spark) == []
    assert run(wider, once=True, spark=spark).filled.columns == ()
