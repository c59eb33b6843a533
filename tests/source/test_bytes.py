"""Input in any bytes: each line and row is an event, or a dead letter that keeps them."""

from __future__ import annotations

import bz2
import gzip
import json
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from latecomer.config.columns import infer_columns
from latecomer.config.encodings import ENCODINGS
from latecomer.engine.ledger.check import check_ledger
from latecomer.errors import SourceError
from latecomer.store.store import Store
from source.source_kit import (
    ledger_lines,
    parquet_bytes,
    pipeline_in,
    rows_of,
    run_once,
    write_text,
)

AT = "2026-11-08T14:00:00Z"
SCHEMA = {"txn": "string", "at": "string", "paise": "bigint", "note": "string"}
FOREIGN = "caf\u00e9".encode("latin-1")


def events(store: Store) -> list[tuple[Any, ...]]:
    return [
        (row["txn"], row["note"])
        for row in rows_of(store.events, "select * from t order by origin, position")
    ]


def letters(store: Store) -> list[dict[str, Any]]:
    return rows_of(store.dead_letters, "select * from t order by origin, position")


def not_text(*values: bytes) -> pa.Array:
    """A column that says it is text, and is not."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values).buffers())


def test_a_json_line_that_is_not_utf_8_is_a_dead_letter_with_its_bytes(
    spark: SparkSession, tmp_path: Path
) -> None:
    good = f'{{"txn": "a", "at": "{AT}", "note": "caf\u00e9 \ufffd", "paise": 1}}'.encode()
    bad = [
        b'{"txn": "b", "at": "%s", "paise": 2, "note": "%s"}' % (AT.encode(), FOREIGN),
        b'{"txn": "c", "at": "%s", "no\xefte": 1}' % AT.encode(),
        b"\xff\xfe\x00",
        b"\x00",
    ]
    write_text(tmp_path, "a.json", b"\n".join([*bad, good]))
    write_text(tmp_path, "b.json.gz", gzip.compress(bad[0] + b"\r\n"), 1)
    pipeline = pipeline_in(tmp_path, ledger=["paise"], event={"partition": "note", "id": "txn"})
    store = run_once(pipeline, spark)

    assert events_of_json(store) == [("a", "caf\u00e9 \ufffd")]
    found = letters(store)
    assert [row["raw_bytes"] or row["raw"].encode() for row in found] == [*bad, bad[0]]
    assert found[0]["raw"] == bad[0].decode(errors="replace")
    place = bad[0].index(FOREIGN) + 3
    assert found[0]["detail"].startswith(f"byte 0xE9 at {place} is not utf-8; ")
    assert "source.files.encoding, such as windows-1252" in found[0]["detail"]
    assert {row["reason"] for row in found} == {"unreadable"}
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 6, "on_time": 1, "dead_letter": 5}
    assert ledger_lines(store, "totals")[0, "paise"] == {"received": 5, "on_time": 1, "dead_letter": 4}
    assert check_ledger(pipeline, spark) == []
    assert_others_can_read(store)


def events_of_json(store: Store) -> list[tuple[Any, ...]]:
    sql = "select event_id, source_partition from t"
    return [tuple(row.values()) for row in rows_of(store.events, sql)]


def assert_others_can_read(store: Store) -> None:
    """Arrow, Polars and DuckDB read every row of every table of the log."""
    for table in (store.events, store.duplicates, store.dead_letters):
        if not table.exists:
            continue
        count = sum(file.rows for file in table.files())
        if not count:
            continue
        rows = DeltaTable(table.root).to_pyarrow_table()
        rows.validate(full=True)
        assert rows.num_rows == count
        assert sum(pl.read_parquet(path).height for path in table.paths(table.files())) == count
        assert duckdb.sql("select count(*), max(origin) from rows").fetchall()[0][0] == count


def test_a_csv_line_that_is_not_utf_8_is_a_dead_letter_and_u_fffd_is_a_character(
    spark: SparkSession, tmp_path: Path
) -> None:
    at = AT.encode()
    write_text(
        tmp_path,
        "a.csv",
        b"\n".join(
            [
                b"txn,at,paise,note",
                b"a1,%s,1,%s" % (at, FOREIGN),
                b"a2,%s,2,\xef\xbf\xbd" % at,
                b"",
                b"a3,%s,3\xe9,n" % at,
                b" \t",
                b'a4,%s,4,"x ""y"", z"' % at,
                b"a5,%s" % at,
            ]
        ),
    )
    # Even what is not kept must be text: nobody can say where such a field ends.
    write_text(tmp_path, "b.csv", b"note,city,at,txn\nn,%s,%s,b1\nn,Pune,%s,b2\n" % (FOREIGN, at, at), 1)
    write_text(tmp_path, "c.csv", b"txn,at,no\xefte\nc1,%s,n\n" % at, 2)
    write_text(tmp_path, "d.csv", b"txn,at,paise,note\r\nd1,%s,5,fine\r\n" % at, 3)
    write_text(tmp_path, "e.csv", f"txn,at,paise,note\ne1,{AT},6,x\n".encode("utf-16"), 4)
    write_text(tmp_path, "f.csv", f"txn,at,paise,note\nf1,{AT},7,x\n".encode("utf-16-be"), 5)
    pipeline = pipeline_in(tmp_path, files={"format": "csv"}, schema=SCHEMA, ledger=["paise"])
    store = run_once(pipeline, spark)

    assert events(store) == [("a2", "\ufffd"), ("a4", 'x "y", z'), ("b2", "n"), ("d1", "fine")]
    found = letters(store)
    assert [row["raw_bytes"] or row["raw"].encode() for row in found[:4]] == [
        b"a1,%s,1,%s" % (at, FOREIGN),
        b"a3,%s,3\xe9,n" % at,
        b"a5,%s" % at,
        b"n,%s,%s,b1" % (FOREIGN, at),
    ]
    assert found[2]["detail"] == "2 fields, and the file has 4 columns: txn, at, paise, note"
    assert found[4]["reason"] == "unreadable_file"
    assert "the header is not utf-8" in found[4]["raw"]
    assert found[4]["raw"] in found[4]["detail"]
    for each in found[5:]:
        assert each["reason"] == "unreadable_file"
        assert "the header looks like UTF-16; set source.files.encoding: utf-16" in each["detail"]
    assert ledger_lines(store, "totals")[0, "events"] == {"received": 11, "on_time": 4, "dead_letter": 7}
    assert check_ledger(pipeline, spark) == []
    assert_others_can_read(store)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_files_may_be_in_another_encoding(spark: SparkSession, tmp_path: Path, form: str) -> None:
    """One folder for each encoding: what is written comes back, also from compressed files."""
    texts = {
        "windows-1252": "\u20ac caf\u00e9",
        "utf-16": "\u0a17\u0a41 \U0001f600",
        "gb18030": "\u4e2d\u6587",
    }
    for encoding, text in texts.items():
        folder = tmp_path / encoding

        def content(name: str, text: str = text) -> str:
            if form == "json":
                return json.dumps({"txn": name, "at": AT, "note": text}, ensure_ascii=False) + "\r\n"
            return f'txn,at,note\r\n\r\n{name},{AT},"{text}"\r\n'

        write_text(folder, f"a.{form}", content("a").encode(encoding))
        write_text(folder, f"b.{form}.gz", gzip.compress(content("b").encode(encoding)), 1)
        write_text(folder, f"c.{form}.bz2", bz2.compress(content("c").encode(encoding)), 2)
        spoilt = {"windows-1252": b"x\x81\n", "utf-16": b"x\x00\n", "gb18030": b"\xff\n"}[encoding]
        if encoding == "utf-16":
            write_text(folder, f"d.{form}", ("\ufeff" + content("d")).encode("utf-16be"), 3)
            spoilt = "x\ud800\n".encode("utf-16le", "surrogatepass")
        header = "txn,at,note\n".encode(encoding) if form == "csv" else b""
        write_text(folder, f"e.{form}", header + spoilt, 4)
        pipeline = pipeline_in(folder, files={"format": form, "encoding": encoding})
        store = run_once(pipeline, spark)
        names = "abcd" if encoding == "utf-16" else "abc"
        assert events(store) == [(name, text) for name in names]
        (dead,) = letters(store)
        assert dead["reason"] == "unreadable"
        assert dead["raw_bytes"] == spoilt[: -2 if encoding == "utf-16" else -1]
        assert f"is not {'utf-16le' if encoding == 'utf-16' else encoding}" in dead["detail"]


def test_java_knows_every_encoding_and_reads_it_as_python_does(spark: SparkSession) -> None:
    charset = spark._jvm.java.nio.charset.Charset  # type: ignore[union-attr]
    for encoding in ENCODINGS:
        assert charset.isSupported(encoding), encoding
        for text in ("plain", "caf\u00e9", "\u0414\u0430", "\u4e2d\u6587", "\u65e5\u672c", "\ud55c\uad6d"):
            try:
                written = text.encode(encoding)
            except UnicodeEncodeError:
                continue
            buffer = spark._jvm.java.nio.ByteBuffer.wrap(written)  # type: ignore[union-attr]
            assert charset.forName(encoding).decode(buffer).toString() == text, encoding


def test_columns_are_inferred_beside_bytes_that_are_not_text(tmp_path: Path) -> None:
    lines = write_text(tmp_path, "a.json", b'{"note": "%s"}\n{"paise": 5}\n' % FOREIGN)
    rows = write_text(tmp_path, "b.csv", b"txn,paise\n%s,x\na,5\n" % FOREIGN)
    header = write_text(tmp_path, "c.csv", b"txn,no\xefte\na,5\n")
    latin = write_text(tmp_path, "d.csv", "pr\u00e9nom\nx\n".encode("latin-1"))
    wide = write_text(tmp_path, "e.csv", "\ufeffpr\u00e9nom,n\nx,5\n".encode("utf-16be"))
    assert infer_columns([str(lines)], "json") == {"paise": "bigint"}
    assert infer_columns([str(rows), str(header)], "csv") == {"txn": "string", "paise": "bigint"}
    assert infer_columns([str(latin)], "csv", encoding="iso-8859-1") == {"pr\u00e9nom": "string"}
    assert infer_columns([str(wide)], "csv", encoding="utf-16") == {"pr\u00e9nom": "string", "n": "bigint"}
    assert infer_columns([str(wide)], "csv", encoding="utf-16be") == {"pr\u00e9nom": "string", "n": "bigint"}
    with pytest.raises(SourceError, match=r"or another source\.files\.encoding than utf-8"):
        infer_columns([str(header)], "csv")


def test_the_character_that_stands_for_others_may_be_written(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, files={"format": "csv"}, schema=SCHEMA)
    write_text(tmp_path, "a.csv", f"txn,at,paise,note\na1,{AT},1,caf\u00e9\nb1,{AT},1,\ufffd\n")
    assert events(run_once(pipeline, spark)) == [("a1", "caf\u00e9"), ("b1", "\ufffd")]


def test_parquet_text_that_is_not_utf_8_is_a_dead_letter_row_by_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    moments = pa.array([1_794_146_400_000_000] * 3, pa.timestamp("us", "UTC"))
    content = parquet_bytes(
        txn=pa.array(["a", "b", "c"]),
        at=moments,
        note=not_text(b"fine", FOREIGN + b'"\\', b"\xf0\x9f\x98\x80"),
        part=not_text(b"p", FOREIGN, b"p"),
        key=pa.array([b"\xff\x00", b"\xe9", b"caf"]),
        paise=pa.array([1, 2, 4]),
    )
    write_text(tmp_path, "a.parquet", content)
    pipeline = pipeline_in(
        tmp_path,
        files={"format": "parquet"},
        event={"partition": "part", "id": "key"},
        ledger=["paise"],
        outputs={"totals": {"window": {"tumbling": "1m"}, "by": ["note"], "aggregates": {"n": "count(*)"}}},
    )
    store = run_once(pipeline, spark, drain=True)
    assert events(store) == [("a", "fine"), ("c", "\U0001f600")]
    # An id of bytes is text with a character for each.
    ids = rows_of(store.events, "select event_id from t order by event_id")
    assert [row["event_id"] for row in ids] == ["caf", "\xff\x00"]
    (dead,) = letters(store)
    assert (dead["reason"], dead["position"], dead["source_partition"]) == ("unreadable", 1, "caf\ufffd")
    assert b'"note":"%s\\"\\\\"' % FOREIGN in dead["raw_bytes"]
    assert json.loads(dead["raw"])["note"] == 'caf\ufffd"\\'
    assert "is not utf-8" in dead["detail"]
    assert ledger_lines(store, "totals")[0, "paise"] == {"received": 7, "on_time": 5, "dead_letter": 2}
    assert check_ledger(pipeline, spark) == []
    assert_others_can_read(store)


ANY_LINE = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=20).map(str.encode),
    st.tuples(st.binary(max_size=8), st.sampled_from([b"1", b'"x"', b"[", b"null", b"\xe9"])).map(
        lambda pair: b'{"at": "%s", "note": "%s", "paise": %s}' % (AT.encode(), *pair)
    ),
    st.tuples(st.binary(max_size=8), st.sampled_from([b"1", b"x", b"", b'"1"', b"1,2"])).map(
        lambda pair: b"%s,%s,%s" % (AT.encode(), *pair)
    ),
)
"""Bytes that are nothing, bytes that are text, and rows with such bytes in them."""


@pytest.mark.parametrize("form", ["json", "csv"])
def test_whatever_the_bytes_every_line_is_an_event_or_a_dead_letter(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    @given(st.lists(ANY_LINE, min_size=250, max_size=250, unique=True))
    @settings(
        max_examples=2,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def check(written: list[bytes]) -> None:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        assert_nothing_is_lost(spark, folder, form, b"\n".join(written))

    check()


def assert_nothing_is_lost(spark: SparkSession, folder: Path, form: str, content: bytes) -> None:
    header = b"at,note,paise\n" if form == "csv" else b""
    write_text(folder, f"a.{form}", header + content)
    schema = {"at": "string", "note": "string", "paise": "bigint"}
    pipeline = pipeline_in(folder, files={"format": form}, schema=schema, ledger=["paise"])
    store = run_once(pipeline, spark)
    lines = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    blank = bytes(range(33)) if form == "csv" else b" \t\r\n"
    expected = [line for line in lines if line.strip(blank)]
    places = {row["position"]: None for row in rows_of(store.events, "select position from t")}
    for row in letters(store):
        told = row["raw_bytes"] or row["raw"].encode()
        places[row["position"]] = told if row["reason"] == "unreadable" else None
    assert len(places) == len(expected)
    for (_, told), line in zip(sorted(places.items()), expected, strict=True):
        assert told in (None, line)
        if form == "csv" and told is None:
            line.decode()  # whatever became of it, it is text
    assert check_ledger(pipeline, spark) == []
    assert_others_can_read(store)
