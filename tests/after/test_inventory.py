"""Which schemas a log and topics hold, and which of them no registry knows."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cli.cli_kit import Cli, calling
from kafka_kit import Client
from latecomer.config.models import Pipeline
from latecomer.schemas import inventory as seen
from latecomer.schemas.inventory import Inventory, schema_of, shape_of
from latecomer.store.store import Store
from schemas.registry.registry_kit import Server
from source.avro_source_kit import FIRST, record

AT = datetime(2026, 11, 8, 14, tzinfo=UTC)


def test_a_message_names_its_schema_or_has_a_shape() -> None:
    assert schema_of(b"\0\0\0\1\2rest") == (258, None)
    assert schema_of(b"\0\0\0") == (None, seen.UNREADABLE)
    assert schema_of(b"\xff\xfe") == (None, seen.UNREADABLE)
    assert schema_of(b"") == (None, seen.UNREADABLE)
    assert schema_of(None) == (None, seen.NO_VALUE)
    assert schema_of(b'{"b": true, "a": [{"x": 1.5}, null]}') == (
        None,
        "{a: [null | {x: number}], b: boolean}",
    )
    assert schema_of(b"[" * 100_000) == (None, seen.UNREADABLE)


def test_shapes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep: Any = 1
    for _ in range(50):
        deep = {"a": [deep]}
    assert shape_of(deep) == "{a: [{a: [{a: [{a: [{…}]}]}]}]}"
    assert shape_of({str(nth): nth for nth in range(200)}).endswith(", …}")
    monkeypatch.setattr(seen, "MOST_SHAPES", 2)
    found = Inventory()
    for name in "abcdab":
        found.add_message("t", json.dumps({name: 1}).encode(), AT)
    found.add_message("t", b"\0\0\0\0\7", None)
    assert [(each.shape or each.schema_id, each.messages) for each in found.seen] == [
        ("(other shapes)", 2),
        ("{a: number}", 2),
        ("{b: number}", 2),
        (7, 1),
    ]
    assert found.seen[-1].first is None


def pipeline_file(folder: Path, source: dict[str, Any]) -> Path:
    written = {
        "name": "seen",
        "store": "store",
        "source": {"schema": {"at": "string"}, **source},
        "event": {"time": "at"},
        "watermark": {"delay": "1m"},
        "outputs": {"n": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(written))
    return file


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return calling(capsys)


def asked(cli: Cli, *words: object) -> tuple[int, list[dict[str, Any]], str]:
    said = cli("registry", "inventory", *words, "--format", "json")
    return said.status, json.loads(said.out) if said.out.strip() else [], said.err


def test_topics_are_held_against_a_registry(
    kafka: Client, registry: Server, tmp_path: Path, cli: Cli
) -> None:
    topic = kafka.create_topic()
    number = registry.asking.register(f"{topic}-avro", record(FIRST))
    framed = b"\0" + number.to_bytes(4, "big") + b"body"
    schema = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}
    registry.asking.register(f"{topic}-value", json.dumps(schema), schemaType="JSON")
    messages = [framed, framed, b"\0\0\0\xff\xffbody", b'{"at": "x"}', b'{"at": 5}', b'{"at": 6}', b"\xff"]
    kafka.produce(topic, messages)
    file = pipeline_file(tmp_path, {"kafka": {"servers": kafka.servers, "topics": [topic]}})
    code, rows, _ = asked(cli, file, "--topics", "--url", registry.url)
    assert code == 1
    assert {(row["schema_id"], row["shape"], row["count"], row["registered"]) for row in rows} == {
        (number, None, 2, f"AVRO schema {number}"),
        (65535, None, 1, "nowhere"),
        (None, "{at: string}", 1, f"{topic}-value version 1"),
        (None, "{at: number}", 2, "nowhere"),
        (None, seen.UNREADABLE, 1, "nowhere"),
    }
    assert all(row["place"] == topic and row["first_seen"] <= row["last_seen"] for row in rows)
    code, rows, _ = asked(cli, file, "--topics", "--newest", "1", "--url", registry.url)
    assert sum(row["count"] for row in rows) <= 4  # of each partition one


def test_ids_may_be_in_a_header(kafka: Client, registry: Server, tmp_path: Path, cli: Cli) -> None:
    """The last header of that name counts; a message without one has the shape of its JSON."""
    topic = kafka.create_topic()
    number = registry.asking.register(f"{topic}-any", '{"type": "object"}', schemaType="JSON")
    as_bytes, as_text = number.to_bytes(4, "big"), str(number).encode()
    for headers in (
        [("schema", as_bytes)],
        [("schema", b"\0" + as_bytes)],
        [("schema", b"77"), ("other", b"1"), ("schema", as_text)],
        [("schema", b"4711")],
        [("schema", b"v2")],
        [],
    ):
        kafka.produce(topic, [b'{"at": "x"}'], headers=headers)
    source = {
        "kafka": {"servers": kafka.servers, "topics": [topic]},
        "format": {"json": {"registry": registry.url, "id_header": "schema"}},
    }
    code, rows, _ = asked(cli, pipeline_file(tmp_path, source), "--topics")
    assert code == 1
    assert {(row["schema_id"], row["shape"], row["count"], row["registered"]) for row in rows} == {
        (number, None, 3, f"JSON schema {number}"),
        (4711, None, 1, "nowhere"),
        (None, "{at: string}", 2, "nowhere"),
    }


def test_a_log_is_held_against_the_registry(registry: Server, tmp_path: Path, cli: Cli) -> None:
    number = registry.asking.register("orders-value", record(FIRST))
    topics = {"servers": "127.0.0.1:1", "topics": ["orders"]}
    ids = {"json": {"id_header": "schema", "validate": False}}
    file = pipeline_file(tmp_path, {"kafka": topics, "format": ids})
    code, _, said = asked(cli, file)
    assert (code, "run the pipeline first" in said) == (1, True)
    pipeline = Pipeline.model_validate({**json.loads(file.read_text()), "base": tmp_path})
    store = Store(pipeline, {"at": "string"})
    store.pin()
    rows = [
        {"event_time": AT, "arrival_time": AT.replace(minute=nth), "schema_id": each, "batch": 0, "tick": 0}
        for nth, each in enumerate([number, number, 999])
    ]
    store.events.append(0, pa.Table.from_pylist(rows, schema=store.layout.schema))
    code, found, said = asked(cli, file)
    assert (code, {row["registered"] for row in found}) == (0, {None})
    assert "no registry was asked" in said
    code, found, _ = asked(cli, file, "--url", registry.url)
    assert code == 1
    assert [(row["schema_id"], row["count"], row["registered"]) for row in found] == [
        (number, 2, f"AVRO schema {number}"),
        (999, 1, "nowhere"),
    ]
    assert found[0]["last_seen"] == "2026-11-08T14:01:00Z"
    file = pipeline_file(tmp_path, {"kafka": topics})
    code, found, _ = asked(cli, file, "--url", registry.url)
    assert [(row["schema_id"], row["shape"], row["count"], row["registered"]) for row in found] == [
        (None, seen.NO_ID, 3, "nowhere")
    ]


def test_what_cannot_be_asked_is_told(tmp_path: Path, cli: Cli) -> None:
    (tmp_path / "in").mkdir()
    file = pipeline_file(tmp_path, {"files": {"path": "in"}})
    assert "has no meaning without --topics" in asked(cli, file, "--newest", "5")[2]
    assert "the pipeline reads no topics" in asked(cli, file, "--topics")[2]
