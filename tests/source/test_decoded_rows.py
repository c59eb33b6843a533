"""JSON and CSV without Spark: rows exactly as Spark's readers had them, whatever is wrong with a line.

The lines in `golden/` were changed at random, or are odd by design; what is said of each there, Spark 4.1.1 said
(`lines.json_records` and `lines.csv_records` of version 0.9): whether it can be read, what is kept, and its values.
Only numbers in text are read by a grammar of our own (`model/written_numbers.py`).
"""

from __future__ import annotations

import gzip
import json
import math
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from latecomer.config.damaged_files import DamagedFile
from latecomer.config.sources import Files, UnknownFields
from latecomer.source.decode.base import FileDecoder, SourceFile
from latecomer.source.decode.csv import CsvFiles
from latecomer.source.decode.csv_rows import CsvLines
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.json_text import JsonText
from latecomer.source.decode.private_columns import BROKEN, CORRUPT, KEPT, POSITION
from latecomer.source.decode.text import JsonFiles
from latecomer.source.decode.text_lines import Lines
from latecomer.store.layout import source_type

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> tuple[dict[str, str], list[list[Any]]]:
    """The columns, and of each line: its text, whether it is corrupt, what is kept, and its values."""
    columns, *rows = map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
    return columns, rows


def shown(rows: pa.Table, columns: dict[str, str]) -> list[dict[str, Any]]:
    """The values that are not null, as the golden files write them."""
    written = {}
    for name, kind in columns.items():
        if "<" in kind:  # lists and maps are tested below
            continue
        column = rows.column(name)
        if kind in ("timestamp", "timestamp_ntz", "date"):
            column = column.cast(pa.int32() if kind == "date" else pa.int64())
        written[name] = [_plain(value) for value in column.to_pylist()]
    return [
        {name: written[name][nth] for name in written if written[name][nth] is not None}
        for nth in range(rows.num_rows)
    ]


def _plain(value: Any) -> Any:
    match value:
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case Decimal():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
    return value


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def require_golden(rows: pa.Table, columns: dict[str, str], lines: list[list[Any]]) -> None:
    corrupt = rows.column(CORRUPT).to_pylist()
    kept = rows.column(KEPT).to_pylist()
    for line, wrong, more, values in zip(lines, corrupt, kept, shown(rows, columns), strict=True):
        text, is_corrupt, expected_kept, expected = line
        assert wrong == (as_bytes(text) if is_corrupt else None), text
        assert more == expected_kept, text
        assert {name: str(value) for name, value in values.items()} == {
            name: str(value) for name, value in expected.items()
        }, text


@pytest.mark.parametrize("name", ["json_records", "json_nested"])
def test_records_of_json_are_what_spark_made_of_them(name: str) -> None:
    columns, lines = golden(name)
    rows = JsonRecords("keep").decode([as_bytes(text) for text, *_ in lines], columns)
    assert rows.schema.types[: len(columns)] == [source_type(kind) for kind in columns.values()]
    require_golden(rows, columns, lines)


@pytest.mark.parametrize("name", ["json_records", "csv_lines"])
def test_a_line_is_the_same_alone_and_among_others(name: str) -> None:
    columns, lines = golden(name)
    for line in lines[::7]:
        if name == "csv_lines":
            rows = CsvLines([*columns, "other"], columns, ",", "keep").read(
                Lines.of(as_bytes(line[0]) + b"\n", "utf-8")
            )
        else:
            rows = JsonRecords("keep").decode([as_bytes(line[0])], columns)
        if KEPT not in rows.column_names:
            rows = rows.append_column(KEPT, pa.nulls(1, pa.string()))
        require_golden(rows, columns, [line])


def test_lines_of_csv_are_what_spark_made_of_them() -> None:
    columns, lines = golden("csv_lines")
    text = b"".join(as_bytes(each) + b"\n" for each, *_ in lines)
    require_golden(
        CsvLines([*columns, "other"], columns, ",", "keep").read(Lines.of(text, "utf-8")), columns, lines
    )


def decoded(record: str, kind: str, unknown: UnknownFields = "ignore") -> Any:
    """The value of the column `c`, or ... where the record is corrupt."""
    (row,) = JsonRecords(unknown).decode([record.encode()], {"c": kind}).to_pylist()
    return ... if row[CORRUPT] is not None else row["c"]


@pytest.mark.parametrize(
    ("record", "kind", "value"),
    [
        ('{"c": 1.10}', "string", "1.10"),  # as it is written, wherever it stands
        ('{"c": [1.10]}', "array<string>", ["1.10"]),
        ('{"c": 1, "c": {"a" : 2}}', "string", '{"a" : 2}'),
        ('{"c": NaN}', "string", "NaN"),
        ('{"c": {"a": 1, "a": 2}}', "map<string,bigint>", [("a", 2)]),
        ('{"c": 200}', "tinyint", ...),  # Java took it for -56
        ('{"c": "12:30"}', "timestamp", ...),  # of which day?
        ('{"c": "20260105"}', "date", ...),  # Spark took it for a number of days
        ('{"c": 9223372036854775807}', "timestamp", ...),
        ('{"c": 1}}', "bigint", ...),  # what follows an object is not lost unseen
        ('{"c": 1},5', "bigint", ...),
        ('{"c": 1} ,\t', "bigint", 1),
        ('{"c": 1e0002}', "decimal(9,2)", Decimal(100)),
        ('{"x": 1e99999, "c": 1}', "decimal(9,2)", Decimal(1)),
        ('[{"c": 1}]', "bigint", ...),
        ('{"c": ' + "[" * 1200 + "]" * 1200 + "}", "string", ...),
    ],
)
def test_where_spark_was_of_two_minds_the_plain_rule_holds(record: str, kind: str, value: Any) -> None:
    assert decoded(record, kind) == value


def test_of_a_record_that_does_not_fit_the_rest_is_known() -> None:
    columns = {"n": "bigint", "p.base": "bigint", "s": "string"}
    records = [
        b'{"n":5,"s":7,"p":{"base":"x"}}',
        b'{"n":5,"s":"a" 7}',
        b'{"n":"x","p":{"base":8}}',
        b'{"n":5,"s":"\xff"}',
    ]
    rows = JsonRecords().decode(records, columns)
    assert rows.column(CORRUPT).to_pylist() == records
    assert rows.select(["n", "p.base"]).to_pylist() == [
        {"n": 5, "p.base": None},
        {"n": None, "p.base": None},
        {"n": None, "p.base": 8},
        {"n": 5, "p.base": None},
    ]


def test_lists_and_maps() -> None:
    columns = {
        "l": "array<bigint>",
        "m": "map<string,decimal(9,2)>",
        "o": "array<struct<a:int,`b c`:timestamp>>",
    }
    records = [
        b'{"l":[1,null],"m":{"x":1.005,"y":null},"o":[{"a":1,"b c":"1970-01-01T00:00:01Z"},null,{}]}',
        b'{"l":[],"m":{},"o":null}',
        b'{"l":[1.5]}',
        b'{"m":{"x":"y"}}',
        b'{"o":[{"a":"1"}]}',
        b'{"l":{}}',
    ]
    rows = JsonRecords().decode(records, columns)
    assert rows.column(CORRUPT).to_pylist() == [None, None, *records[2:]]
    assert rows.schema.types[:3] == [source_type(kind) for kind in columns.values()]
    first, second = rows.select(list(columns)).to_pylist()[:2]
    moment = datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    assert first == {
        "l": [1, None],
        "m": [("x", Decimal("1.01")), ("y", None)],
        "o": [{"a": 1, "b c": moment}, None, {"a": None, "b c": None}],
    }
    assert second == {"l": [], "m": [], "o": None}
    alone = JsonRecords().decode([b'{"l":[1,null]}', b'{"l":null}', b'{"l":[9]}'], {"l": "array<bigint>"})
    assert alone.column("l").to_pylist() == [[1, None], None, [9]]


def test_records_of_several_lines_and_blank_ones() -> None:
    records = [b'{"n":\n1}', b"", b" ", b'{"n":2}', b'{"n":3}\n', b'{"n":\r\n4}']
    rows = JsonRecords().decode(records, {"n": "bigint"})
    assert rows.column("n").to_pylist() == [1, None, None, 2, 3, 4]
    assert rows.column(CORRUPT).to_pylist() == [None, b"", b" ", None, None, None]
    assert JsonRecords().decode([], {"n": "bigint"}).num_rows == 0


def test_unknown_fields_are_ignored_kept_or_dead_letters() -> None:
    records = [
        b'{"n":1}',
        b'{"n":1, "tip" : 1.10}',
        b"{'n':1,'tip':2}",
        b'{"n":"x","tip":1}',
        b'{"n":2,"k":1}',
    ]
    assert KEPT not in JsonRecords("ignore").decode(records, {"n": "bigint"}).column_names
    assert KEPT not in JsonRecords("keep").decode(records[:1], {"n": "bigint"}).column_names
    kept = [None, '{"tip" : 1.10}', "{'n':1,'tip':2}", None, None]
    rows = JsonRecords("keep", {"k": "int"}).decode(records, {"n": "bigint"})
    assert rows.column(KEPT).to_pylist() == kept
    rows = JsonRecords("dead_letter", {"k": "int"}).decode(records, {"n": "bigint"})
    assert rows.column(KEPT).to_pylist() == kept
    assert rows.column(CORRUPT).to_pylist() == [None, *records[1:4], None]


def test_records_without_columns_are_read_too() -> None:
    """All columns of a Kafka source may be metadata."""
    rows = JsonRecords().decode([b'{"n":1}', b"x", b"{}"], {})
    assert rows.column(CORRUPT).to_pylist() == [None, b"x", None]


def test_what_looks_like_an_escape_is_kept_as_it_is() -> None:
    """Escapes of control characters are written in upper case: a text that looks like one is not an escape."""
    texts = ["a\\u001fb", "a\\u00abb", "a\x1fb", "a\\\x1fb"]
    written = ["a\\\\u001fb", "a\\\\u00abb", "a\\u001Fb", "a\\\\\\u001Fb"]
    assert [JsonText().of("string")(each) for each in texts] == [f'"{each}"' for each in written]
    lines = Lines.of("".join(f"{each},1\n" for each in texts).encode(), "utf-8")
    rows = CsvLines(["tip", "n"], {"n": "bigint"}, ",", "keep").read(lines)
    assert rows.column(KEPT).to_pylist() == [f'{{"tip":"{each}"}}' for each in written]


# Files


def json_files(columns: dict[str, str], unknown: UnknownFields = "ignore", **settings: Any) -> JsonFiles:
    return JsonFiles(Files(path="x", **settings), columns, unknown_fields=unknown)


def csv_files(columns: dict[str, str], unknown: UnknownFields = "ignore", **settings: Any) -> CsvFiles:
    return CsvFiles(Files(path="x", format="csv", **settings), columns, _no_folders, unknown_fields=unknown)


def _no_folders(_: SourceFile) -> dict[str, str | None]:
    return {}


def all_of(decoder: FileDecoder, file: Path, size: int = 1 << 30) -> list[dict[str, Any]]:
    found = SourceFile(f"file://{file}", 0, file.stat().st_size)
    decoder = pickle.loads(pickle.dumps(decoder))
    return [
        row
        for split in decoder.splits(found, size)
        for part in decoder.decode(split)
        for row in part.to_pylist()
    ]


def test_positions_count_rows_and_begin_with_the_byte_of_the_split(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'\xef\xbb\xbf{"n":1}\r\n\n  \nx\r{"n":2}\n{"n":3}')
    rows = all_of(json_files({"n": "bigint"}), file)
    assert [(row["n"], row[CORRUPT], row[POSITION]) for row in rows] == [
        (1, None, 0),
        (None, b"x", 1),
        (2, None, 2),
        (3, None, 3),
    ]
    file.write_bytes(b"".join(b'{"n":%d}\n' % nth for nth in range(100)))
    rows = all_of(json_files({"n": "bigint"}), file, 100)
    assert [row["n"] for row in rows] == list(range(100))
    places = [row[POSITION] for row in rows]
    assert sorted(set(places)) == places
    assert places[:13] == [*range(13)]
    assert places[13] == 100


@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_line_that_is_too_long_is_a_row_with_its_first_bytes(tmp_path: Path, form: str) -> None:
    file = tmp_path / f"a.{form}"
    decoder = (json_files if form == "json" else csv_files)({"n": "bigint"}, max_line="1KiB")
    lines = [b'{"n":1}', b"9" * 6000, b'{"n":2}'] if form == "json" else [b"n", b"1", b"9" * 6000, b"2"]
    file.write_bytes(b"\n".join(lines))
    rows = all_of(decoder, file)
    start = 8 if form == "json" else 4
    assert [(row["n"], row[POSITION]) for row in rows] == [(1, 0), (None, start), (2, 1)]
    assert rows[1][BROKEN] == "6001"
    assert rows[1][CORRUPT] == b"9" * 4096


def test_a_file_of_nothing_but_long_lines_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes((b"x" * 2000 + b"\n") * 100)
    decoder = json_files({"n": "bigint"}, max_line="1KiB")
    assert len(all_of(decoder, file)) == 100
    file.write_bytes((b"x" * 2000 + b"\n") * 101)
    with pytest.raises(DamagedFile, match=r"more than 100 of its lines have over 1KiB \(source\.files"):
        all_of(decoder, file)


def test_what_is_compressed_in_other_ways_is_not_read(tmp_path: Path) -> None:
    found = json_files({"n": "bigint"}).misfit(SourceFile("file:///in/a.json.zst", 0, 0))
    assert found == "files compressed as .zst are not read; use .gz or .bz2"


def test_of_a_csv_header_only_the_columns_that_come_twice_are_named(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"n,s,day,s,x,x,n,n\n")
    decoder = csv_files({"n": "int", "s": "string", "day": "date"})
    assert decoder.misfit(SourceFile(f"file://{file}", 0, 18)) == "the header names a column twice: n, s"


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1252", "iso-8859-15"])
@pytest.mark.parametrize("rest", [b"", b"\n\r\n", b" \n"])
def test_a_file_with_a_byte_order_mark_alone_has_nothing_in_it(
    tmp_path: Path, encoding: str, rest: bytes
) -> None:
    file, mark = tmp_path / "a.csv", b"\xef\xbb\xbf"
    decoder = csv_files({"n": "int"}, encoding=encoding)
    for content in (b"", mark):
        file.write_bytes(content + rest)
        assert decoder.misfit(SourceFile(f"file://{file}", 0, 18)) is None
        assert all_of(decoder, file) == []
    file.write_bytes(mark + b"n\n7\n")
    assert [row["n"] for row in all_of(decoder, file)] == [7]


@pytest.mark.parametrize(
    ("header", "fix"),
    [
        ("n;s;day", 'set source.files.delimiter: ";"'),
        ("x\tn", r'set source.files.delimiter: "\t"'),
        ("x|n", 'set source.files.delimiter: "|"'),
        ("1,a", "correct source.schema or, if the file has no header, set source.files.header: false"),
        ("x" * 300, None),
    ],
)
def test_a_csv_header_without_any_column_is_shown_with_the_delimiter_that_may_be_meant(
    tmp_path: Path, header: str, fix: str | None
) -> None:
    file = tmp_path / "a.csv"
    file.write_text(f"{header}\n")
    mistake = csv_files({"n": "int", "s": "string"}).misfit(SourceFile(f"file://{file}", 0, 18))
    assert mistake is not None
    shown = header if fix else f"{'x' * 199}…"
    assert mistake.startswith(f"the header {shown!r} names none of the columns n, s; {fix or 'correct'}")


def test_csv_has_its_header_in_the_first_split_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(
        b"\r\n\nn,s,x\n" + b"".join(b'%d,"a,b",%s\n' % (nth, b"y" * (nth % 3)) for nth in range(50))
    )
    decoder = csv_files({"s": "string", "n": "int", "none": "date"}, "keep")
    for size in (1 << 20, 64):
        rows = all_of(decoder, file, size)
        assert [row["n"] for row in rows] == list(range(50))
        assert {row["s"] for row in rows} == {"a,b"}
        assert [row.get(KEPT) for row in rows[:3]] == [None, '{"x":"y"}', '{"x":"yy"}']
    assert all_of(csv_files({"a": "string", "n": "int"}, header=False), file)[0] == {
        "a": "n", "n": None, CORRUPT: b"n,s,x", POSITION: 0,
    }  # fmt: skip
    file.write_bytes(b"\n \n")
    assert all_of(decoder, file) == []


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "utf-16be", "shift_jis"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_other_encodings(tmp_path: Path, encoding: str, form: str) -> None:
    letter = "\u30bd" if encoding == "shift_jis" else "\u00e9"
    lines = [f'{{"s":"{letter}"}}', '{"s":"b"}'] if form == "json" else ["s,t", f"{letter},1", "b,2"]
    bad = {"windows-1252": b"\x81", "shift_jis": b"\x81\x01"}.get(
        encoding, b"\x00\xd8" if encoding == "utf-16" else b"\xd8\x00"
    )
    end = "\n".encode("utf-16be" if encoding == "utf-16be" else encoding)[-2 if "16" in encoding else -1 :]
    file = tmp_path / f"a.{form}.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode(encoding) + end + bad + end))
    rows = all_of((json_files if form == "json" else csv_files)({"s": "string"}, encoding=encoding), file)
    assert [(row["s"] if row[CORRUPT] is None else ..., row[CORRUPT]) for row in rows] == [
        (letter, None),
        ("b", None),
        (..., bad),
    ]


def test_a_file_that_is_damaged_says_so(tmp_path: Path) -> None:
    file = tmp_path / "a.json.gz"
    file.write_bytes(gzip.compress(b'{"n":1}\n' * 9)[:-4])
    with pytest.raises(DamagedFile, match="cut short"):
        all_of(json_files({"n": "bigint"}), file)
    wide = tmp_path / "a.csv"
    wide.write_bytes(b"n,s\n1,a\n" + b"," * 30_000)
    with pytest.raises(DamagedFile, match="more than 20480 fields"):
        all_of(csv_files({"n": "bigint"}), wide)
