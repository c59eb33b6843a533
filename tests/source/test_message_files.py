"""Files of messages as they were in a topic, with a real registry: old and new writers in one file."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.letters.choosing import Choice
from latecomer.after.letters.replaying import replay_letters
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.source import messages
from latecomer.source.decode import retrying
from latecomer.source.fixes import Fix
from latecomer.source.messages import LARGEST_MESSAGE, Message, messages_of
from schemas.registry.registry_kit import Server
from source.avro_source_kit import FIRST, SECOND, THIRD, decoder, framed, payment, record
from source.kafka_source_kit import SCHEMA, awaited, logged, payments_from, totals
from spark_kit import running_beside

SUBJECT = "payments-value"


def pipeline_on(folder: Path, kind: str, options: dict[str, Any], **changes: Any) -> Pipeline:
    source = {"files": {"path": "in", "format": {kind: options}}, **changes.pop("source", {})}
    return payments_from(folder, source, **changes)


def deliver(folder: Path, name: str, content: bytes) -> None:
    file = folder / "in" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def old(number: int, nth: int) -> bytes:
    return framed(number, record(FIRST), payment(nth, amount=nth))


def new(number: int, nth: int) -> bytes:
    return framed(number, record(SECOND), payment(nth, paise=nth, shop="chai"))


def sized(written: list[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(each)) + each for each in written)


def test_old_and_new_writers_in_one_file(spark: SparkSession, registry: Server, tmp_path: Path) -> None:
    """One behind another, with line ends between them, and with their lengths; the id stays with each."""
    one, two = (registry.asking.register(SUBJECT, record(fields)) for fields in (FIRST, SECOND))
    written = [old(one, 0), new(two, 1), old(one, 2)]
    deliver(tmp_path, "a", b"".join(written))
    deliver(tmp_path, "b c", b"\r\n".join([new(two, 3), old(one, 4)]) + b"\n")
    options = {"registry": registry.url, "subject": SUBJECT}
    pipeline = pipeline_on(tmp_path, "avro", {**options, "messages": "joined"})
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "shop", "schema_id", "position") == [
        ("t0", 0, "none", one, 0),
        ("t1", 1, "chai", two, len(written[0])),
        ("t2", 2, "none", one, len(written[0] + written[1])),
        ("t3", 3, "chai", two, 0),
        ("t4", 4, "none", one, len(new(two, 3)) + 2),
    ]
    assert totals(pipeline) == (5, sum(range(5)))
    assert replay(pipeline, spark=spark).equal
    other = tmp_path / "other"
    deliver(other, "a", sized(written))
    lengths = pipeline_on(other, "avro", {**options, "messages": "sized"})
    run(lengths, drain=True, spark=spark)
    assert totals(lengths) == (3, 3)
    assert logged(lengths, "txn", "schema_id", "position")[0] == ("t0", one, 4)


def test_the_rest_of_a_damaged_file_is_one_dead_letter(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    """With its bytes, from where nothing is known any more; it is delivered again, and what was read is not doubled."""
    one, _ = (registry.asking.register(SUBJECT, record(fields)) for fields in (FIRST, SECOND))
    good, bad = [old(one, nth) for nth in range(3)], [b"\0\0\0", b"{}", struct.pack(">bI", 0, one) + b"\xff"]
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    deliver(tmp_path, "0", b"")
    for nth, damage in enumerate(bad, 1):
        deliver(tmp_path, str(nth), good[nth - 1] + damage + old(one, nth))
    run(pipeline, once=True, spark=spark)
    letters = sorted(Reader(pipeline).dead_letters().to_pylist(), key=lambda letter: letter["origin"])
    assert [each["raw_bytes"] or each["raw"].encode() for each in letters] == [
        damage + old(one, nth) for nth, damage in enumerate(bad, 1)
    ]
    assert {each["reason"] for each in letters} == {"unreadable_rest"}
    assert [each["position"] for each in letters] == [len(good[0])] * 3
    details = [each["detail"].partition("; nothing is read of the file from here on")[0] for each in letters]
    assert details == [
        "0 is no id that a registry gives a schema",
        "its first byte is 0x7B, and Confluent's framing begins with 0x00",
        f"no message of schema {one} ends in what follows",
    ]
    assert check_ledger(pipeline, spark) == []
    still_dead = replay_letters(pipeline, Choice(), Fix(), spark=spark).still_dead
    assert {each.partition(";")[0] for each in still_dead["detail"].to_pylist()} == {
        "it stands for the rest of a file"
    }
    deliver(tmp_path, "again", good[2] + old(one, 3))
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (4, 6)


def test_a_damaged_message_with_its_length_is_a_dead_letter_by_itself(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    """And can be corrected: by JSON, as those of a topic."""
    one = registry.asking.register(SUBJECT, record(SECOND))
    deliver(tmp_path, "a", sized([new(one, 0), new(one, 1)[:-3], b"", new(one, 2)]))
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "sized"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    run(pipeline, once=True, spark=spark)
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [(each["reason"], each["detail"].partition(",")[0]) for each in letters] == [
        ("unreadable", f"the {len(new(one, 1)) - 8} bytes after its id are no whole record of schema {one}"),
        ("unreadable", "it has no bytes"),
    ]
    text = json.dumps({"txn": "t1", "at": "2026-04-25T12:00:01Z", "paise": 1, "shop": "chai"})
    where = "raw != ''"
    found = replay_letters(pipeline, Choice(where=where, raw=f"'{text}'"), Fix(), spark=spark)
    assert (found.picked, found.events) == (1, 1)
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (3, 3)


def test_a_file_waits_for_a_schema_that_is_not_known_yet(
    spark: SparkSession,
    registry: Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.5)
    one = registry.asking.register(SUBJECT, record(SECOND))
    third = framed(one + 1, record(THIRD), payment(1, paise=1, shop="chai", note=""))
    deliver(tmp_path, "a", new(one, 0) + third + new(one, 2))
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    with running_beside(pipeline, spark):
        awaited(lambda: f"does not know schema {one + 1} yet; register it" in caplog.text)
        assert logged(pipeline, "txn") == []
        assert registry.asking.register(SUBJECT, record(THIRD)) == one + 1
        awaited(lambda: len(logged(pipeline, "txn")) == 3)
    assert Reader(pipeline).dead_letters().num_rows == 0


def test_without_waiting_the_rest_is_a_dead_letter(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    one = registry.asking.register(SUBJECT, record(SECOND))
    deliver(tmp_path, "a", new(one, 0) + new(one + 7, 1) + new(one, 2))
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", {**options, "unknown_id": "dead_letter"})
    run(pipeline, once=True, spark=spark)
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert letter["detail"].startswith(f"the registry does not know schema {one + 7}; ")
    assert (letter["raw_bytes"] or letter["raw"].encode()) == new(one + 7, 1) + new(one, 2)
    assert logged(pipeline, "txn") == ["t0"]


@pytest.mark.parametrize("layout", ["joined", "sized"])
def test_json_with_a_registry(layout: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = [{"at": f"2026-04-25T12:00:0{nth}Z", "txn": f"t{nth}", "paise": nth} for nth in range(3)]
    written = [struct.pack(">bI", 0, 7) + json.dumps(row).encode() for row in rows]
    deliver(tmp_path, "a", sized(written) if layout == "sized" else b"\n".join(written))
    options = {"validate": False, "messages": layout}
    pipeline = pipeline_on(tmp_path, "json", options, source={"schema": SCHEMA})
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "schema_id") == [(f"t{nth}", nth, 7) for nth in range(3)]
    assert totals(pipeline) == (3, 3)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 20])
def test_a_file_is_read_in_pieces(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages end where they end, wherever a piece does."""
    monkeypatch.setattr(messages, "_CHUNK", chunk)
    by = decoder(record(SECOND), {1: record(FIRST), 2: record(SECOND)})
    written = [old(1, 0), new(2, 1), new(2, 2)]
    found = [Message(sum(map(len, written[:nth])), each) for nth, each in enumerate(written)]
    file = tmp_path / "a"
    file.write_bytes(b"".join(written))
    assert list(messages_of(file, "joined", by)) == found
    file.write_bytes(b"".join(written) + written[0][:9])
    assert list(messages_of(file, "joined", by))[3] == Message(
        len(b"".join(written)), written[0][:9], is_rest=True
    )
    file.write_bytes(sized(written) + b"\0\0")
    *sound, rest = messages_of(file, "sized", by)
    assert [each.record for each in sound] == written
    assert rest == Message(len(sized(written)), b"\0\0", is_rest=True)


def test_a_length_that_cannot_be_is_no_reason_to_read_all_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by = decoder(record(FIRST), {1: record(FIRST)})
    monkeypatch.setattr(messages, "LARGEST_MESSAGE", 1000)
    monkeypatch.setattr(messages, "_CHUNK", 500)
    monkeypatch.setattr(messages, "MOST_KEPT", 100)
    file = tmp_path / "a"
    file.write_bytes(b"\x7f" + bytes(100_000))
    (rest,) = messages_of(file, "sized", by)
    assert (rest.start, len(rest.record), rest.is_rest) == (0, 100, True)
    assert LARGEST_MESSAGE == 64 << 20


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        (
            {"kafka": {"servers": "a:1", "topics": ["t"]}, "format": {"avro": {"messages": "joined"}}},
            "has messages, and that is how files hold them",
        ),
        ({"files": {"path": "in", "format": {"avro": {"messages": "joined"}}}}, "avro records of files name"),
        (
            {"files": {"path": "in", "format": {"avro": {"registry": "http://a", "messages": "sized"}}}},
            "which schema the columns follow from",
        ),
        (
            {"files": {"path": "in", "format": {"json": {"registry": "http://a"}}}},
            "lines of files have no id of a schema; write format: json, or messages: joined",
        ),
        (
            {"files": {"path": "in", "format": {"json": {"registry": "http://a", "messages": "sized"}}}},
            "nothing says their columns; write subject: payments-value",
        ),
        (
            {"files": {"path": "in", "format": {"json": {"registry": "http://a", "messages": "lines"}}}},
            "'joined' or 'sized'",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(source: dict[str, Any], wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source") as refused:
        Pipeline.model_validate(
            {"name": "p", "store": str(tmp_path), "source": source, "event": {"time": "at"}}
        )
    assert wrong in str(refused.value)
