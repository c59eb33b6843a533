"""What the fast path computes, against the model; and what it declines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.decode.arrow_json import json_lines, may_have_others
from latecomer.decode.columns import KEPT
from latecomer.fast import VARIABLE, Choice, Declined
from latecomer.log.in_process import _id, _in_order, micros
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.ids import event_id
from latecomer.model.zones import to_local, to_utc
from latecomer.source.columns import LANDED, ORIGIN, POSITION

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
TIMES = st.integers(-(10**15), 4 * 10**15)
RECENT = st.integers(-(10**15), 2 * 10**15)
"""Up to 2033."""
MINUTE = 60_000_000


@given(st.lists(TIMES, min_size=1, max_size=10), st.booleans())
def test_times_are_read_as_they_are_written(times: list[int], zoned: bool) -> None:
    texts = [to_moment(time).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z" * zoned for time in times]
    assert micros(pa.array(texts), "string", None, "UTC").to_pylist() == times
    assert [to_micros(to_moment(time)) for time in times] == times


@pytest.mark.parametrize(
    "text",
    [
        "2026",
        "2026-01-05T14",
        "2026-01-05T14:00Z",
        "2026-01-05T14:00+05:30",
        "2026-01-05T14:00:00+01",
        "2026-01-05T14:00:00+18:00",
        "2026-01-05T14:00:00 Z",
        "2026-01-05T14:00:00.1234567890Z",
        "2026-1-5",
        "2026-02-30T00:00:00Z",
        "1770000000",
        "",
    ],
)
def test_other_times_decline(text: str) -> None:
    with pytest.raises(Declined):
        micros(pa.array([text]), "string", None, "UTC")


def test_times_are_written_in_several_ways() -> None:
    texts = {
        "2026-01-05": "2026-01-05T00:00:00",
        "2026-01-05 14:30": "2026-01-05T14:30:00",
        "2026-01-05T14:00:00+05:30": "2026-01-05T08:30:00",
        "2026-01-05T14:00:00.123456789-01:00": "2026-01-05T15:00:00.123456",
        "1969-12-31T23:59:59.9999999Z": "1969-12-31T23:59:59.999999",
    }
    expected = [to_micros(datetime.fromisoformat(each).replace(tzinfo=UTC)) for each in texts.values()]
    assert micros(pa.array(list(texts)), "string", None, "UTC").to_pylist() == expected
    with pytest.raises(Declined):
        micros(pa.array(["2026-01-05T14:00:00+05:30", "2026-01-05"]), "string", None, "Asia/Kolkata")


def test_columns_of_times_are_times() -> None:
    moment = datetime(2026, 1, 5, 14, tzinfo=UTC)
    naive = moment.replace(tzinfo=None)
    for column, kind, expected in [
        (pa.array([moment], pa.timestamp("us", "UTC")), "timestamp", moment),
        (pa.array([naive], pa.timestamp("us")), "timestamp_ntz", moment),
        (pa.array([naive.date()], pa.date32()), "date", moment.replace(hour=0)),
    ]:
        assert micros(column, kind, None, "UTC").to_pylist() == [to_micros(expected)]
    in_india = micros(pa.array([naive], pa.timestamp("us")), "timestamp_ntz", None, "Asia/Kolkata")
    assert in_india.to_pylist() == [to_micros(moment) - 330 * MINUTE]


@given(
    st.lists(RECENT, min_size=1, max_size=10),
    st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "America/New_York"]),
)
def test_times_without_a_zone_are_those_of_the_wall_clock(times: list[int], zone: str) -> None:
    shown = [to_local(time, zone) for time in times]
    texts = [to_moment(time).strftime("%Y-%m-%dT%H:%M:%S.%f") for time in shown]
    assert micros(pa.array(texts), "string", None, zone).to_pylist() == [to_utc(time, zone) for time in shown]


def test_of_two_times_with_one_name_the_first_is_meant_and_none_that_the_clock_leaves_out() -> None:
    autumn = micros(pa.array(["2025-10-26T02:30:00"]), "string", None, "Europe/Berlin")
    assert autumn.to_pylist() == [to_micros(datetime(2025, 10, 26, 0, 30, tzinfo=UTC))]
    for text in ("2025-03-30T02:30:00", "1899-12-31T23:00:00", "2040-07-01T12:00:00"):
        with pytest.raises(Declined):
            micros(pa.array([text]), "string", None, "Europe/Berlin")


def test_a_time_with_a_zone_is_of_that_zone() -> None:
    assert micros(pa.array(["1970-01-01T00:00:01Z"]), "string", None, "Asia/Kolkata").to_pylist() == [
        1_000_000
    ]


def test_numbers_are_times_in_their_unit() -> None:
    assert [
        micros(pa.array([-1]), "bigint", unit, "UTC").to_pylist() for unit in ("s", "ms", "us", "ns")
    ] == [
        [-1_000_000],
        [-1_000],
        [-1],
        [-1],
    ]
    with pytest.raises(Declined):
        micros(pa.array([1 << 62]), "bigint", "s", "UTC")


TEXTS = st.none() | st.text('ab"\\\\,\\n\\té', max_size=4)


@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=8))
def test_ids_are_the_models(rows: list[tuple[str | None, str | None]]) -> None:
    table = pa.table(
        {name: pa.array(each, pa.string()) for name, each in zip("ab", zip(*rows, strict=True), strict=True)}
    )
    kinds = {"a": "string", "b": "string"}
    assert _id(table, ["a", "b"], kinds).to_pylist() == [event_id(row) for row in rows]
    assert _id(table, ["b"], kinds).to_pylist() == [row[1] for row in rows]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from(["a", "é", "b/a"])), max_size=12)
)
def test_ticks_of_one_event_follow_the_order_of_arrival(rows: list[tuple[int, int, str]]) -> None:
    arrived, landed, origins = ([row[nth] for row in rows] for nth in range(3))
    table = pa.table(
        {
            LANDED: pa.array(landed, pa.int64()),
            ORIGIN: pa.array(origins, pa.string()),
            POSITION: pa.array(range(len(rows)), pa.int64()),
        }
    )
    ordered = sorted(
        range(len(rows)), key=lambda nth: (arrived[nth], landed[nth], origins[nth].encode(), nth)
    )
    found = _in_order(pa.array(arrived, pa.int64()), table).tolist()
    assert found == [ordered.index(nth) + 1 for nth in range(len(rows))]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n",
        b'\xef\xbb\xbf{"n":1}',
        b'{"n":1}\r\n',
        b'{"n":1}\n\n{"n":2}\n',
        b'{"n":1}\n \n',
        b'\n{"n":1}\n',
        b'{"n":1}\n\n',
        b'{"n":1}\x00\n',
        b'{"n":1}{"n":2}\n{"s":\n"x"}\n',
        b'{"n":1,"n":2}\n',
        b'{"n":"1"}\n',
        b'{"n":1.0}\n',
        b'{"n":1,"z":NaN}\n',
        b'{"s":"\xff"}\n',
        b'{"s":"\\ud83d"}\n',
        b'{"s":"a\tb"}\n',
        b'{"s":5}\n',
        b"{'n':1}\n",
        b'[{"n":1}]\n',
        b'{"n":1} \n',
        b'{"z":' + b"[" * 1000 + b"]" * 1000 + b"}\n",
    ],
)
def test_json_that_is_not_plain_declines(text: bytes) -> None:
    with pytest.raises(Declined):
        json_lines(text, {"n": "bigint", "s": "string"})


@pytest.mark.parametrize(
    ("text", "may"),
    [
        (b'{"n": 1, "s": "a\\"b"}\n\n{"s": null}\n', False),
        (b'{"n": 1}\n{"n": 2, "tip": 5}\n', True),
        (b'{"n": 1}\n{"s": 5}\n', True),
        (b'{"\\u006e": 1}\n', True),
        (b"{'n': 1}\n", True),
        (b"", True),
    ],
)
def test_a_file_may_have_fields_that_are_no_columns(tmp_path: Path, text: bytes, may: bool) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(text)
    assert may_have_others(file, {"n": "bigint", "s": "string"}) is may
    assert may_have_others(file, {"n": "bigint", "s.t": "string"})
    assert may_have_others(tmp_path / "none.json", {"n": "bigint"})


@pytest.mark.parametrize(
    "place", ['{"z":%s}', '{"z":[1, %s]}', '{"z":{"y":%s}}', '{"d":%s}', '{"d": %s ,"n":1}']
)
def test_what_some_readers_take_for_a_number_declines_wherever_it_stands(place: str) -> None:
    words = ("NaN", "nan", "NAN", "Inf", "INF", "inf", "Infinity", "infinity", "INFINITY")
    for word in [sign + word for sign in ("", "-", "+") for word in words]:
        with pytest.raises(Declined):
            json_lines((place % word).encode(), {"n": "bigint", "d": "double"})
    said = ("NaN", "Inf", "Nancy", "to Nan", "INF", "more Information")
    text = "\n".join(f'{{"s":"{each}"}}' for each in said).encode()
    assert json_lines(text, {"s": "string"}).column("s").to_pylist() == list(said)


def test_fields_that_are_no_columns_are_passed_over_kept_or_decline() -> None:
    text = b'{"n": 1}\n{"n": 2, "tip": 5}\n'
    assert json_lines(text, {"n": "bigint"}).column("n").to_pylist() == [1, 2]
    kept = json_lines(text, {"n": "bigint"}, "keep")
    assert kept.to_pylist() == [{"n": 1, KEPT: None}, {"n": 2, KEPT: '{"tip": 5}'}]
    assert json_lines(text[:9], {"n": "bigint"}, "keep").column_names == ["n"]
    assert json_lines(text[:9], {"n": "bigint"}, "dead_letter").column("n").to_pylist() == [1]
    with pytest.raises(Declined):
        json_lines(text, {"n": "bigint"}, "dead_letter")
    assert json_lines(b'{"\\u006e": 1}\n', {"n": "bigint"}, "keep").column(KEPT).to_pylist() == [
        '{"\\u006e": 1}'
    ]
    deep = b'{"n": 1, "z": ' + b"[" * 9 + b"]" * 9 + b"}\n"
    with pytest.raises(Declined, match="kept whole"):
        json_lines(deep, {"n": "bigint"}, "keep")


def test_a_block_boundary_is_no_line_end() -> None:
    lines = [f'{{"n":{nth},"s":"{"x" * (nth % 700)}"}}' for nth in range(9000)]
    rows = json_lines(("\n".join(lines)).encode(), {"n": "bigint", "s": "string"})
    assert rows.column("n").to_pylist() == list(range(9000))
    assert rows.column("s").to_pylist() == ["x" * (nth % 700) for nth in range(9000)]


def test_what_is_declined_is_left_to_spark_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def declines() -> str:
        raise Declined("sessions")

    def arrow_cannot() -> str:
        raise pa.ArrowNotImplementedError("no such kernel")

    choice = Choice()
    assert choice.in_words() is None
    assert choice.take("log", lambda: "here", lambda: "Spark") == "here"
    assert choice.take("windowing", declines, lambda: "Spark") == "Spark"
    assert choice.take("windowing", arrow_cannot, lambda: "Spark") == "Spark"
    assert choice.in_words() == "1 of 3 steps without Spark; Spark for sessions, Arrow says: no such kernel"
    monkeypatch.setenv(VARIABLE, "off")
    assert choice.take("log", lambda: "here", lambda: "Spark") == "Spark"
