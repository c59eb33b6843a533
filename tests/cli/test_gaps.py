"""`latecomer gaps`: the numbers that a producer gave and that no row has."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import latecomer
from cli.cli_kit import MINUTE, NOON, PIPELINE, Cli, Lake, at, rows_of
from examples_kit import drawn
from latecomer import PipelineError, Reader
from latecomer.errors import NoStore
from latecomer.store.coverage import EVENTS, REMOVALS, kind_of_removal, removals
from latecomer.store.delta.table import Table
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store


def numbered(
    producer: str | None, number: object, minute: int = 0, arrived: int | None = None
) -> dict[str, Any]:
    """An event that happened so many minutes after noon, and arrived then unless said."""
    came = minute if arrived is None else arrived
    written = None if number is None else str(number)
    return {
        "producer": producer,
        "producer_seq": written,
        "event_time": NOON + minute * MINUTE,
        "arrival_time": NOON + came * MINUTE,
    }


def log(
    lake: Lake,
    batch: int,
    events: Sequence[Mapping[str, Any]],
    again: Sequence[Mapping[str, Any]] = (),
    letters: Sequence[Mapping[str, Any]] = (),
) -> None:
    """A batch, committed in the order of the engine."""
    store = lake.store
    lake.dead_letters(batch, letters)
    for table, rows in ((store.duplicates, again), (store.events, events)):
        table.append(batch, rows_of(table.schema, [{"batch": batch, **row} for row in rows]))


def ranges(rows: pa.Table) -> list[tuple[str, int, int]]:
    return [(row["producer"], row["first"], row["last"]) for row in rows.to_pylist()]


def letter(producer: object, number: object, minute: int = 0) -> dict[str, Any]:
    raw = json.dumps({"payer": producer, "shop": number, "event_time": None})
    return {"reason": "no_event_time", "raw": raw, "arrival_time": NOON + minute * MINUTE}


def test_each_range_says_what_is_around_it(lake: Lake) -> None:
    log(lake, 0, [numbered("a", 1, 1, 2), numbered("a", 2, 2, 3), numbered("b", 7, 1)])
    log(lake, 1, [numbered("a", 9, 9), numbered("a", 6, 6, 12), numbered("b", 8, 2)])
    assert latecomer.gaps(lake.pipeline).to_pylist() == [
        {
            "producer": "a", "first": 3, "last": 5, "missing": 3,
            "event_time_before": at(2), "event_time_after": at(6),
            "arrived_before": at(3), "arrived_after": at(12), "since": at(9),
        },
        {
            "producer": "a", "first": 7, "last": 8, "missing": 2,
            "event_time_before": at(6), "event_time_after": at(9),
            "arrived_before": at(12), "arrived_after": at(9), "since": at(9),
        },
    ]  # fmt: skip
    assert ranges(latecomer.gaps(lake.pipeline, producer="b")) == []


def test_duplicates_and_dead_letters_have_arrived(lake: Lake) -> None:
    broken = {"reason": "unreadable", "raw": '{"payer": "a", "shop": 6', "arrival_time": NOON}
    log(
        lake,
        0,
        [numbered("a", 1), numbered("a", 8), numbered("7", 1), numbered("7", 3)],
        [numbered("a", 3)],
        [letter("a", 5), letter(7, 2), letter("b", 1), letter("a", None), letter(["a"], 7), broken],
    )
    assert ranges(latecomer.gaps(lake.pipeline)) == [("a", 2, 2), ("a", 4, 4), ("a", 6, 7)]
    beside = latecomer.gaps(lake.pipeline).to_pylist()[2]
    assert (beside["event_time_before"], beside["arrived_before"]) == (None, at(0))


def test_a_dead_letter_has_the_names_of_the_source(unrun: Lake) -> None:
    text = PIPELINE.replace("shop: int", "shop_number: int").replace(
        "ledger:", "columns: {shop: shop_number}\nledger:"
    )
    unrun.file.write_text(text)
    lake = Renamed(unrun.file)
    lake.store.pin()
    raw = {"reason": "no_event_time", "raw": '{"payer": "a", "shop_number": 2}', "arrival_time": NOON}
    log(lake, 0, [numbered("a", 1), numbered("a", 4)], (), [raw])
    assert ranges(latecomer.gaps(lake.pipeline)) == [("a", 3, 3)]


def test_of_several_sources_each_has_its_own_names(unrun: Lake) -> None:
    document = yaml.safe_load(PIPELINE)
    source = document.pop("source")
    renamed = {**source["schema"], "nth": "int"}
    del renamed["shop"]
    document["sources"] = {
        "app": source,
        "pos": {**source, "schema": renamed, "columns": {"shop": "nth"}},
    }
    unrun.file.write_text(yaml.safe_dump(document))
    lake = Renamed(unrun.file)
    lake.store.pin()
    letters = [
        {"reason": "no_event_time", "raw": raw, "arrival_time": NOON, "source_partition": partition}
        for raw, partition in (
            ('{"payer": "a", "shop": 2, "nth": 9}', "app"),
            ('{"payer": "a", "nth": 3, "shop": 9}', "pos/till 1"),
        )
    ]
    log(lake, 0, [numbered("a", 1), numbered("a", 5)], (), letters)
    assert ranges(latecomer.gaps(lake.pipeline)) == [("a", 4, 4)]


class Renamed(Lake):
    """A pipeline that has other names for columns."""

    @property
    def store(self) -> Store:
        return Store(self.pipeline, source_columns(self.pipeline))


def test_of_a_batch_that_is_half_committed_nothing_is_seen(lake: Lake) -> None:
    """A dead letter of the batch under way, whose events are not there yet, would make gaps of them all."""
    log(lake, 0, [numbered("a", 1)])
    lake.dead_letters(1, [letter("a", 5)])
    lake.store.duplicates.append(1, rows_of(lake.store.duplicates.schema, [{"batch": 1, **numbered("a", 4)}]))
    assert ranges(latecomer.gaps(lake.pipeline)) == []


def test_a_number_that_begins_again_hides_what_is_missing_among_those_before(lake: Lake) -> None:
    log(lake, 0, [numbered("a", number) for number in (1, 2, 3, 5)])
    log(lake, 1, [numbered("a", number, 60) for number in (1, 4)])
    assert ranges(latecomer.gaps(lake.pipeline)) == []


def test_what_has_no_number_is_told(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    odd = [
        numbered(None, 2),
        numbered("a", None),
        numbered("a", "2.0"),
        numbered("a", 2**63),
        numbered("a", ""),
    ]
    log(lake, 0, [numbered("a", 1), *odd, numbered("a", 3)], (), [{"reason": "unreadable", "raw": "{"}])
    with caplog.at_level(logging.WARNING):
        assert ranges(latecomer.gaps(lake.pipeline)) == [("a", 2, 2)]
    assert [record.getMessage() for record in caplog.records] == [
        "rows without payer, or without a whole number in shop: 5; they are left out",
        "dead letters that do not show producer and number: 1; what they are may be reported as missing",
    ]


def test_numbers_may_be_as_large_as_any(lake: Lake) -> None:
    log(lake, 0, [numbered("a", -(2**63)), numbered("a", 2**63 - 1)])
    (gap,) = latecomer.gaps(lake.pipeline).to_pylist()
    assert (gap["first"], gap["last"], gap["missing"]) == (1 - 2**63, 2**63 - 2, 2**64 - 2)


def test_what_retention_removed_is_not_missing(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """2 came late, and what came in between is gone; 12 was never there."""
    log(lake, 0, [numbered("a", number, number) for number in (1, 3, 4, 5, 6)])
    log(lake, 1, [numbered("a", number, number, 20) for number in (2, 10, 11, 13)])
    before = latecomer.gaps(lake.pipeline)
    assert ranges(before) == [("a", 7, 9), ("a", 12, 12)]
    _remove(lake, 0, newest=NOON + 6 * MINUTE)
    with caplog.at_level(logging.WARNING):
        assert ranges(latecomer.gaps(lake.pipeline)) == [("a", 12, 12)]
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "ranges left out: 1; they follow events before 2026-04-25T12:06:00.000001Z"
    )


def _remove(lake: Lake, batch: int, newest: int) -> None:
    """As retention does: on record first, then gone."""
    row = {
        "batch": batch,
        "table": EVENTS,
        "unit": "events",
        "amount": Decimal(5),
        "newest_event_time": newest,
    }
    removed: Table = removals(lake.store)
    removed.append(batch, rows_of(REMOVALS, [row]), application=kind_of_removal(EVENTS))
    events = lake.store.events
    events.rearrange([], [file for file in events.files() if f"{batch:010d}-" in file.path])


# Against plain sets

PLACES = ("events", "duplicates", "letters")
ROWS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 20), st.sampled_from(PLACES)), max_size=8),
    min_size=1,
    max_size=3,
)


@drawn(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS)
def test_it_is_the_difference_of_sets(batches: list[list[tuple[str, int, str]]]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pipeline.yaml"
        file.write_text(PIPELINE, encoding="utf-8")
        lake = Lake(file)
        lake.store.pin()
        for nth, batch in enumerate(batches):
            events, again = (
                [numbered(who, number) for who, number, place in batch if place == wanted]
                for wanted in PLACES[:2]
            )
            letters = [letter(who, number) for who, number, place in batch if place == "letters"]
            log(lake, nth, events, again, letters)
        found = {
            (row["producer"], number)
            for row in latecomer.gaps(lake.pipeline).to_pylist()
            for number in range(row["first"], row["last"] + 1)
        }
    wanted = set()
    for who in "ab":
        seen = {number for batch in batches for name, number, _ in batch if name == who}
        wanted |= {
            (who, number)
            for number in range(min(seen, default=0), max(seen, default=0))
            if number not in seen
        }
    assert found == wanted


# The verb


def test_every_format(lake: Lake, cli: Cli) -> None:
    log(
        lake,
        0,
        [numbered("a", 1), numbered("a", 3, 1), numbered("a", 5, 2), numbered("b", 1), numbered("b", 4)],
    )
    outcome = json.loads(cli("gaps", lake.file, "-f", "json").out)
    assert [(row["producer"], row["first"], row["last"], row["missing"]) for row in outcome] == [
        ("a", 2, 2, 1), ("a", 4, 4, 1), ("b", 2, 3, 2),
    ]  # fmt: skip
    assert outcome[0]["since"] == "2026-04-25T12:01:00Z"
    lines = cli("gaps", lake.file, "-f", "csv", "-n", "1").out.splitlines()
    assert lines[0].startswith("producer,first,last,missing,event_time_before,")
    assert [line.split(",")[:3] for line in lines[1:]] == [["a", "2", "2"]]
    table = cli("gaps", lake.file, "--producer", "b")
    assert table.status == 0
    assert len(table.out.splitlines()) == 2
    assert table.out.splitlines()[1].split()[:4] == ["b", "2", "3", "2"]
    zoned = json.loads(cli("gaps", lake.file, "-f", "json", "--zone", "Asia/Kolkata").out)
    assert zoned[0]["since"] == "2026-04-25T17:31:00+05:30"


def test_nothing_to_show(lake: Lake, cli: Cli) -> None:
    nothing = "nothing is missing between the first and the last number of any producer\n"
    assert cli("gaps", lake.file).out == nothing
    log(lake, 0, [numbered("a", 1), numbered("a", 2)])
    outcome = cli("gaps", lake.file)
    assert (outcome.status, outcome.out, outcome.err) == (0, nothing, "")
    assert json.loads(cli("gaps", lake.file, "-f", "json").out) == []
    assert "warning: no number of a producer b was seen" in cli("gaps", lake.file, "--producer", "b").err


def test_progress_is_told_table_by_table(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    log(lake, 0, [numbered("a", 1), numbered("a", 2)], (), [letter("a", 3)])
    with caplog.at_level(logging.INFO):
        latecomer.gaps(lake.pipeline)
    outcome = [record.getMessage() for record in caplog.records]
    assert outcome == ["reading events, 0 of 2", "reading dead letters, 0 of 1"]


def test_reading_leaves_the_store_as_it_is(lake: Lake) -> None:
    before = sorted(lake.pipeline.store_path.rglob("*"))
    assert Reader(lake.pipeline).gaps().num_rows == 0
    assert sorted(lake.pipeline.store_path.rglob("*")) == before


def test_wrong_usage(lake: Lake, cli: Cli, tmp_path: Path) -> None:
    lake.file.write_text(PIPELINE.replace(", producer: payer, producer_seq: shop", ""))
    said = cli("gaps", lake.file)
    assert said.status == 2
    assert "event.producer: is needed to find gaps" in said.err
    assert "fix: name the columns" in said.err
    with pytest.raises(PipelineError, match="producer: has the wrong kind of value"):
        latecomer.gaps(lake.pipeline, producer=5)  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="pipeline: has the wrong kind of value"):
        latecomer.gaps("pipeline.yaml")  # type: ignore[arg-type]


def test_before_the_first_run(unrun: Lake) -> None:
    with pytest.raises(NoStore, match="run the pipeline first"):
        latecomer.gaps(unrun.pipeline)
