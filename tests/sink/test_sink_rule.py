"""The sequence rule, which the sinks that upsert share."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from latecomer.errors import SinkError
from sink.sink_kit import BY_TWO, SHAPE, Place, apply, crashing, insert, opened, retract, shape_of, table_of

AT = "2026-04-25T14:00:00Z"
NEXT = "2026-04-25T14:01:00Z"


def test_before_any_batch_nothing_is_applied(place: Place) -> None:
    assert opened(place.kind, place.path).last_batch() == -1
    assert place.standing() == {}


def test_a_batch_is_there_with_its_progress(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 3, insert(0, "chai", 0, Decimal(12500), 3), insert(1, "chai", 0, Decimal(10), 1))
    assert sink.last_batch() == 3
    assert place.standing() == {
        (AT, "chai"): (0, "ON_TIME", "12500", "3"),
        (NEXT, "chai"): (0, "ON_TIME", "10", "1"),
    }


def test_every_column_but_op_is_kept(place: Place) -> None:
    apply(opened(place.kind, place.path), 3, insert(0, "chai", 0))
    (row,) = place.rows(place.path)
    assert list(row) == [name for name in SHAPE.schema.names if name != "op"]
    assert row["batch"] == 3


def test_an_update_replaces_the_number_that_stood(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0), insert(0, "dosa", 0))
    apply(sink, 1, insert(0, "chai", 1))
    assert place.standing() == {(AT, "chai"): (1, "LATE", "100", "1"), (AT, "dosa"): (0, "ON_TIME", "0", "0")}


def test_a_retract_and_its_insert_come_to_the_insert(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1, retract(0, "chai", 0), insert(0, "chai", 1))
    assert place.standing() == {(AT, "chai"): (1, "LATE", "100", "1")}


def test_a_lone_retract_takes_the_number_back(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0), insert(1, "chai", 0))
    apply(sink, 1, retract(0, "chai", 0))
    assert list(place.standing()) == [(NEXT, "chai")]
    assert sink.last_batch() == 1


def test_a_retract_of_an_older_sequence_takes_nothing_back(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 2))
    apply(sink, 1, retract(0, "chai", 1))
    assert place.standing() == {(AT, "chai"): (2, "LATE", "200", "2")}
    assert sink.last_batch() == 1


@pytest.mark.parametrize("sequence", [1, 2])
def test_an_insert_that_is_not_newer_changes_nothing(place: Place, sequence: int) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 2))
    apply(sink, 1, insert(0, "chai", sequence, Decimal(999), 9))
    assert place.standing() == {(AT, "chai"): (2, "LATE", "200", "2")}


def test_an_insert_taken_back_in_its_own_batch_leaves_nothing(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1, insert(0, "chai", 1), retract(0, "chai", 1), insert(1, "chai", 0), retract(1, "chai", 0))
    assert place.standing() == {}


def test_several_corrections_in_one_batch_come_to_the_last(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0))
    steps = [retract(0, "chai", 0), insert(0, "chai", 1), retract(0, "chai", 1), insert(0, "chai", 2)]
    apply(sink, 1, *steps)
    assert place.standing() == {(AT, "chai"): (2, "LATE", "200", "2")}


def test_a_session_that_grew_keeps_one_row(place: Place) -> None:
    sink = opened(place.kind, place.path)
    grown = insert(0, "chai", 1)
    grown = type(grown)(**{**vars(grown), "window_end": grown.window_end + 1})
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1, retract(0, "chai", 0), grown)
    (row,) = place.rows(place.path)
    assert str(row["window_end"]).replace(" ", "T")[:26] == "2026-04-25T14:01:00.000001"


def test_null_is_a_key_like_any_other(place: Place) -> None:
    sink = opened(place.kind, place.path, BY_TWO)
    keys = [(None, None), (None, 1), ("chai", None), ("chai", 1), ("", 0)]
    apply(sink, 0, *(insert(0, key, 0, 5, shape=BY_TWO) for key in keys))
    apply(sink, 1, insert(0, (None, None), 1, 6, shape=BY_TWO), retract(0, (None, 1), 0, 5, shape=BY_TWO))
    assert place.standing(BY_TWO) == {
        (AT, None, None): (1, "LATE", "6"),
        (AT, "chai", None): (0, "ON_TIME", "5"),
        (AT, "chai", 1): (0, "ON_TIME", "5"),
        (AT, "", 0): (0, "ON_TIME", "5"),
    }


def test_an_output_without_keys_has_one_number_a_window(place: Place) -> None:
    shape = shape_of({}, {"paise": pa.int64()})
    sink = opened(place.kind, place.path, shape)
    apply(sink, 0, insert(0, (), 0, 5, shape=shape), insert(1, (), 0, 6, shape=shape))
    apply(sink, 1, insert(0, (), 1, 7, shape=shape))
    assert place.standing(shape) == {(AT,): (1, "LATE", "7"), (NEXT,): (0, "ON_TIME", "6")}


NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        (pa.float64(), [NAN, None, 0.5, float("inf")]),
        (pa.decimal128(30, 2), [Decimal("0.10"), Decimal("123456789012345678901234567.89"), None]),
        (pa.decimal128(38, 0), [Decimal(10**20), Decimal(10**20 + 1), Decimal(7), None]),
        (pa.bool_(), [True, False, None]),
        (pa.binary(), [b"", b"\x00\xff", None]),
        (pa.date32(), [None, 0, 20_000]),
        (pa.timestamp("us", "UTC"), [None, 0, 1, -1]),
        (pa.timestamp("us"), [None, 0, 1]),
    ],
)
def test_keys_of_every_type_are_told_apart(place: Place, kind: pa.DataType, keys: list[object]) -> None:
    shape = shape_of({"key": kind}, {"paise": pa.int64()})
    sink = opened(place.kind, place.path, shape)
    values = pa.array(keys, kind).to_pylist()
    apply(sink, 0, *(insert(0, value, 0, 5, shape=shape) for value in values))
    apply(sink, 1, *(insert(0, value, 1, 6, shape=shape) for value in values))
    apply(sink, 2, retract(0, values[0], 1, 6, shape=shape))
    assert [row["sequence"] for row in place.rows(place.path)] == [1] * (len(keys) - 1)


@pytest.mark.parametrize("name", ['a"b', "a`b", "a'b", "a.b", ".a", "select", "Größe", "1st", "s.t", "[a]"])
def test_any_column_name_will_do(place: Place, name: str) -> None:
    shape = shape_of({name: pa.string()}, {"paise": pa.int64()})
    sink = opened(place.kind, place.path, shape)
    apply(sink, 0, insert(0, "it's", 0, 5, shape=shape), insert(0, None, 0, 5, shape=shape))
    apply(sink, 1, insert(0, "it's", 1, 6, shape=shape), retract(0, None, 0, 5, shape=shape))
    assert place.standing(shape) == {(AT, "it's"): (1, "LATE", "6")}


@pytest.mark.parametrize("folder", ["with space", "100%", "hash#mark", "what?", "naïve"])
def test_any_path_will_do(tmp_path: Path, folder: str, place: Place) -> None:
    if place.kind == "iceberg":
        pytest.skip("it has no path")
    there = Place(place.kind, tmp_path / folder / "deeper" / "results", place.rows)
    if (place.kind, folder) == ("duckdb", "what?"):
        with pytest.raises(SinkError, match="cannot use a path with a question mark; give the sink another"):
            opened(there.kind, there.path)
        return
    apply(opened(there.kind, there.path), 0, insert(0, "chai", 0))
    apply(opened(there.kind, there.path), 1, insert(0, "chai", 1))
    assert there.standing() == {(AT, "chai"): (1, "LATE", "100", "1")}


def test_a_batch_applied_again_is_applied_once(place: Place) -> None:
    sink = opened(place.kind, place.path)
    history = [[insert(0, "chai", 0)], [retract(0, "chai", 0)], [insert(0, "chai", 1)]]
    for batch, panes in enumerate(history):
        apply(sink, batch, *panes)
    before = place.rows(place.path)
    for batch, panes in enumerate(history):
        apply(opened(place.kind, place.path), batch, *panes)
    assert place.rows(place.path) == before
    assert sink.last_batch() == 2


def test_batches_may_leave_gaps(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 2, insert(0, "chai", 0))
    apply(sink, 40, insert(0, "chai", 1))
    assert sink.last_batch() == 40


def test_an_empty_batch_changes_nothing(place: Place) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0))
    apply(sink, 1)
    assert list(place.standing()) == [(AT, "chai")]


@pytest.mark.parametrize("again", [insert(1, "chai", 0), insert(0, "chai", 1), retract(0, "chai", 0)])
def test_a_crash_before_the_commit_leaves_the_batch_undone(place: Place, again: object) -> None:
    sink = opened(place.kind, place.path)
    apply(sink, 0, insert(0, "chai", 0))
    before = place.rows(place.path)
    with crashing(place.kind, 1):
        apply(sink, 1, again)  # type: ignore[arg-type]
    assert sink.last_batch() == 0
    assert place.rows(place.path) == before
    apply(opened(place.kind, place.path), 1, again)  # type: ignore[arg-type]
    assert sink.last_batch() == 1
    assert place.rows(place.path) != before


def test_columns_of_wider_types_are_taken(place: Place) -> None:
    """Arrow readers differ in which string type they hand out."""
    panes = table_of(0, [insert(0, "chai", 0)])
    merchant = panes.column_names.index("merchant")
    wide = panes.set_column(merchant, "merchant", panes["merchant"].cast(pa.large_string()))
    opened(place.kind, place.path).apply(0, wide)
    assert list(place.standing()) == [(AT, "chai")]


def test_a_sink_whose_table_was_taken_away_starts_over(place: Place) -> None:
    apply(opened(place.kind, place.path), 5, insert(0, "chai", 0))
    place.take_away()
    assert opened(place.kind, place.path).last_batch() == -1
