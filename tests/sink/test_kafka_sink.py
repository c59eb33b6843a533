"""The Kafka sink against a real broker: what consumers with read_committed see, and what is refused."""

from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from time import sleep
from typing import Any

import pyarrow as pa
import pytest

from kafka_kit import Client
from latecomer.config.load import load_pipeline
from latecomer.config.sinks import KafkaSink
from latecomer.errors import PipelineError, SinkError, SinkOutage
from latecomer.model.written_values import json_rows
from latecomer.sink import PaneShape, SinkLogic, kafka_records, open_sink
from latecomer.sink import kafka as kafka_sink_module
from latecomer.sink.keeper import SinkKeeper, check_sinks, sink_status
from latecomer.testing import check_sink
from sink.feeding_kit import Fed
from sink.row_kit import of_reader
from sink.sink_kit import BY_TWO, SHAPE, Crash, apply, insert, retract, table_of
from source.kafka_source_kit import awaited

HERE = Path(".")


def kafka_sink(kafka: Client, topic: str | None = None, **settings: Any) -> KafkaSink:
    return KafkaSink(servers=kafka.servers, topic=topic or kafka.new_name(), **settings)


def opened(sink: KafkaSink, pipeline: str = "upi", shape: PaneShape = SHAPE) -> SinkLogic:
    return open_sink(sink, HERE, pipeline, shape)


def topic_of(sink: KafkaSink) -> str:
    assert sink.topic is not None
    return sink.topic


def rows_of(kafka: Client, sink: KafkaSink) -> list[dict[str, Any]]:
    """What a consumer has who reads all: every change, or the last value of each key."""
    found = kafka.consume(topic_of(sink))
    if sink.compacted:
        last = {record.key: record for record in found}
        found = [record for record in last.values() if record.value is not None]
    return [json.loads(record.value or b"") for record in found]


@pytest.mark.long
@pytest.mark.parametrize("compacted", [False, True], ids=["changes", "compacted"])
def test_a_topic_keeps_what_every_sink_promises(kafka: Client, compacted: bool) -> None:
    check_sink(
        lambda: kafka_sink(kafka, compacted=compacted, partitions=1), read=lambda sink: rows_of(kafka, sink)
    )


# What is written


def test_a_record_has_its_number_as_key_and_its_change_in_the_headers(kafka: Client) -> None:
    sink = kafka_sink(kafka)
    logic = opened(sink)
    apply(logic, 3, insert(0, 'it\'s "chai" % é', 0, Decimal(12345678901234567890), 7))
    (record,) = kafka.consume(topic_of(sink))
    place = {
        "window_start": "2026-04-25T14:00:00Z",
        "window_end": "2026-04-25T14:01:00Z",
        "merchant": 'it\'s "chai" % é',
    }
    assert json.loads(record.key or b"") == place
    assert list(json.loads(record.key or b"")) == list(place)
    assert json.loads(record.value or b"") == {
        **place,
        "paise": 12345678901234567890,
        "payments": 7,
        "sequence": 0,
        "timing": "ON_TIME",
        "op": "insert",
        "batch": 3,
        "fired_at": "2026-04-25T14:10:00Z",
    }
    assert record.header == {
        "op": "insert",
        "sequence": "0",
        "timing": "ON_TIME",
        "batch": "3",
        "writer": "upi/minute_totals",
    }


def test_a_retract_comes_before_what_replaces_it_and_in_the_same_partition(kafka: Client) -> None:
    sink = kafka_sink(kafka, partitions=4)
    logic = opened(sink, shape=BY_TWO)
    keys = [(f"merchant {nth}", nth) for nth in range(20)]
    apply(logic, 0, *(insert(0, key, 0, shape=BY_TWO) for key in keys))
    changes = [
        pane for key in keys for pane in (retract(0, key, 0, shape=BY_TWO), insert(0, key, 1, shape=BY_TWO))
    ]
    apply(logic, 1, *changes)
    records = kafka.consume(topic_of(sink))
    assert {record.partition for record in records} == {0, 1, 2, 3}
    for key in {record.key for record in records}:
        said = [record for record in records if record.key == key]
        assert [(one.header["op"], one.header["sequence"]) for one in said] == [
            ("insert", "0"),
            ("retract", "0"),
            ("insert", "1"),
        ]
        assert {one.partition for one in said} == {murmur2(key or b"") % 4}


def murmur2(data: bytes) -> int:
    """The hash by which Java's producers choose a partition, written down anew."""
    word, mix = 0xFFFFFFFF, 0x5BD1E995
    found = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        part = int.from_bytes(data[start : start + 4], "little") * mix & word
        part = (part ^ part >> 24) * mix & word
        found = (found * mix & word) ^ part
    if rest := data[whole:]:
        found = (found ^ int.from_bytes(rest, "little")) * mix & word
    found = (found ^ found >> 13) * mix & word
    return (found ^ found >> 15) & 0x7FFFFFFF


def test_a_compacted_topic_has_what_stands_and_tombstones_for_what_was_withdrawn(kafka: Client) -> None:
    sink = kafka_sink(kafka, compacted=True)
    logic = opened(sink)
    apply(logic, 0, insert(0, "chai", 0), insert(0, "dosa", 0))
    apply(logic, 1, retract(0, "chai", 0), insert(0, "chai", 1), retract(0, "chai", 1), insert(0, "chai", 2))
    apply(logic, 2, retract(0, "dosa", 0))
    outcome = [
        (
            json.loads(record.key or b"")["merchant"],
            record.header["batch"],
            json.loads(record.value or b"null"),
        )
        for record in kafka.consume(topic_of(sink))
    ]
    assert [(merchant, batch, value and value["sequence"]) for merchant, batch, value in outcome] == [
        ("chai", "0", 0),
        ("dosa", "0", 0),
        ("chai", "1", 2),
        ("dosa", "2", None),
    ]
    assert "op" not in outcome[0][2]
    assert kafka.config(topic_of(sink))["cleanup.policy"] == "compact"


def test_a_large_batch_is_written_piece_by_piece_and_is_one_transaction(
    kafka: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_records, "AT_ONCE", 7)
    for compacted in (False, True):
        sink = kafka_sink(
            kafka, compacted=compacted, partitions=1, options={"queue.buffering.max.messages": 5}
        )
        apply(opened(sink), 0, *(insert(0, f"merchant {nth}", 0) for nth in range(30)))
        assert [row["merchant"] for row in rows_of(kafka, sink)] == [f"merchant {nth}" for nth in range(30)]


def test_side_output_and_dead_letters_come_once_and_as_the_reader_has_them(
    tmp_path: Path, kafka: Client
) -> None:
    late, dead = kafka.new_name(), kafka.new_name()
    fed = Fed(
        tmp_path,
        late_to=f"[{{kafka: {{servers: '{kafka.servers}', topic: {late}, partitions: 1}}}}]",
        dead_letters_to=f"[{{kafka: {{servers: '{kafka.servers}', topic: {dead}, partitions: 1}}}}]",
    )
    check_sinks(fed.store)
    for batch, (late_rows, dead_rows) in enumerate([(3, 2), (0, 0), (2, 0), (0, 3)]):
        fed.set_aside(batch, late=late_rows, dead=dead_rows)
        keeper = SinkKeeper(fed.store)
        keeper.start(batch)
        keeper.finish()
        keeper.close()
    for which, topic in (("late", late), ("dead", dead)):
        records = kafka.consume(topic)
        assert [json.loads(record.value or b"") for record in records] == [
            *json_rows(of_reader(fed.pipeline, which))
        ]
        assert len({record.key for record in records}) == len(records) > 0
        assert {name for record in records for name in record.header} == {"batch", "writer"}
    assert [row["state"] for row in sink_status(fed.store).to_pylist()] == ["up to date", "up to date"]


# How far it is


def test_the_topic_says_how_far_it_is_where_the_broker_has_forgotten(kafka: Client) -> None:
    sink = kafka_sink(kafka, partitions=3)
    logic = opened(sink)
    apply(logic, 4, *(insert(0, f"merchant {nth}", 0) for nth in range(500)))
    apply(logic, 6, insert(1, "chai", 0))
    logic.close()
    kafka.forget_group(f"latecomer/upi/minute_totals/{sink.topic}")
    assert logic.peek() == 6
    again = opened(sink)
    assert again.last_batch() == 6
    apply(again, 6, insert(1, "chai", 0))
    again.skip(7)
    assert again.last_batch() == 7
    assert len(kafka.consume(topic_of(sink))) == 501


def test_what_a_dead_writer_left_open_is_not_taken_for_the_end(
    kafka: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = kafka_sink(kafka)
    logic = opened(sink)
    apply(logic, 0, insert(0, "chai", 0))
    for _ in range(3):
        monkeypatch.setattr(logic, "_send_number", crash)
        with pytest.raises(Crash):
            logic.apply(1, logic_rows(100))
        logic.close()
        logic = opened(sink)
        assert logic.last_batch() == 0
    logic.close()
    kafka.forget_group(f"latecomer/upi/minute_totals/{sink.topic}")
    assert opened(sink).last_batch() == 0
    assert len(kafka.consume(topic_of(sink), committed=False)) == 301
    assert len(kafka.consume(topic_of(sink))) == 1


def crash(*_: object) -> None:
    raise Crash


def logic_rows(count: int) -> pa.Table:
    return table_of(1, [insert(1, f"merchant {nth}", 0) for nth in range(count)])


def test_a_topic_that_was_deleted_is_made_anew_and_filled_from_the_start(kafka: Client) -> None:
    sink = kafka_sink(kafka)
    logic = opened(sink)
    apply(logic, 0, insert(0, "chai", 0))
    logic.close()
    kafka.delete_topic(topic_of(sink))
    assert logic.peek() == -1
    assert topic_of(sink) not in kafka.topics()
    assert opened(sink).last_batch() == -1
    assert kafka.consume(topic_of(sink)) == []


def test_status_disturbs_no_run(kafka: Client) -> None:
    sink = kafka_sink(kafka)
    logic = opened(sink)
    apply(logic, 0, insert(0, "chai", 0))
    with logic._transaction(1):  # type: ignore[attr-defined]
        logic._send(1, logic_rows(10))  # type: ignore[attr-defined]
        other = kafka_sink_module.KafkaLogic(sink, HERE, "upi", SHAPE)
        assert other.peek() == 0
    awaited(
        lambda: other.peek() == 1
    )  # a broker says that a transaction is committed before all partitions show it


# What is refused


def test_a_second_engine_shuts_the_first_out(kafka: Client) -> None:
    sink = kafka_sink(kafka)
    first = opened(sink)
    apply(first, 0, insert(0, "chai", 0))
    second = opened(sink)
    with pytest.raises(
        SinkError, match="another run has begun to write to this topic as this sink; stop one"
    ):
        apply(first, 1, insert(1, "chai", 0))
    apply(second, 1, insert(1, "dosa", 0))
    assert [json.loads(record.value or b"")["merchant"] for record in kafka.consume(topic_of(sink))] == [
        "chai",
        "dosa",
    ]


def test_a_batch_that_outlives_its_transaction_is_tried_again(
    kafka: Client, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    short = {"transaction.timeout.ms": 1000, "socket.timeout.ms": 1000}
    sink = kafka_sink(kafka, options=short)
    logic = opened(sink)
    monkeypatch.setattr(kafka_sink_module, "failpoint", lambda name, _: sleep(2.5 if "sent" in name else 0))
    with pytest.raises(SinkOutage, match=r"took longer than .*; raise transaction.timeout.ms in options"):
        apply(logic, 0, insert(0, "chai", 0))
    logic.close()
    monkeypatch.undo()
    again = opened(sink)
    assert again.last_batch() == -1
    apply(again, 0, insert(0, "chai", 0))
    assert len(kafka.consume(topic_of(sink))) == 1
    assert capfd.readouterr() == ("", "")


def test_a_topic_of_somebody_else_is_refused(kafka: Client) -> None:
    sink = kafka_sink(kafka)
    logic = opened(sink)
    apply(logic, 0, insert(0, "chai", 0))
    with pytest.raises(
        SinkError, match="the topic belongs to output minute_totals of pipeline upi; give the"
    ):
        opened(sink, pipeline="cards")
    foreign = kafka_sink(kafka, kafka.create_topic())
    kafka.produce(topic_of(foreign), ["hello"])
    with pytest.raises(SinkError, match="holds records that latecomer did not write; give the sink another"):
        opened(foreign)


def test_a_topic_that_deletes_what_must_stay_is_refused(kafka: Client) -> None:
    plain, compacted = kafka.create_topic(), kafka.create_topic(cleanup_policy="compact")
    with pytest.raises(SinkError, match=r"the topic is not compacted .*set its cleanup.policy to compact"):
        opened(kafka_sink(kafka, plain, compacted=True))
    with pytest.raises(SinkError, match=r"the topic is compacted .*write compacted: true"):
        opened(kafka_sink(kafka, compacted))


def test_a_record_that_is_too_large(kafka: Client) -> None:
    sink = kafka_sink(
        kafka, kafka.create_topic(max_message_bytes="2000"), options={"compression.type": "none"}
    )
    logic = opened(sink)
    apply(logic, 0, insert(0, "chai", 0))
    with pytest.raises(SinkError, match=r"a record is too large .*raise max.message.bytes of the topic"):
        apply(logic, 1, insert(1, "x" * 5000, 0))
    logic.close()
    again = opened(sink)
    assert again.last_batch() == 0
    apply(again, 1, insert(1, "dosa", 0))
    assert len(kafka.consume(topic_of(sink))) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"no.such.option": 1}, 'No such configuration property: "no.such.option"'),
        ({"security.protocol": "carrier-pigeon"}, "carrier-pigeon"),
    ],
)
def test_an_option_that_there_is_not(kafka: Client, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SinkError, match=r"it cannot be set up so .*correct the options") as raised:
        opened(kafka_sink(kafka, options=options))
    assert said in str(raised.value)


def test_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(SinkError) as raised:
        opened(KafkaSink(servers="127.0.0.1:9", topic="t"))
    assert "the package confluent-kafka is missing; install it: pip install 'latecomer[kafka]'" in str(
        raised.value
    )


# The pipeline file

FILE = """\
name: upi
store: store
source: {{files: {{path: in, order_by: a}}, columns: {{t: timestamp, a: timestamp, m: string, p: bigint}}}}
event: {{time: t}}
watermark: {{delay: 10s}}
outputs:
  totals:
    {{window: {{tumbling: 1m}}, by: [m], aggregates: {{p: sum(p)}}, late: retract, sinks: {sinks}, late_to: {late}}}
  others:
    {{window: {{tumbling: 1m}}, by: [m], aggregates: {{p: sum(p)}}, late: update, allowed_lateness: 1m,
    accumulation: {how}, sinks: {others}}}
"""


def written(
    folder: Path, sinks: str = "[]", others: str = "[]", late: str = "[]", how: str = "accumulating"
) -> Path:
    (folder / "in").mkdir()
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(sinks=sinks, others=others, late=late, how=how), encoding="utf-8")
    return file


def test_a_pipeline_file_names_a_topic(tmp_path: Path) -> None:
    options = (
        "{security.protocol: SASL_SSL, sasl.password: '${env:NO_SUCH_SECRET}', "
        "enable.ssl.certificate.verification: false}"
    )
    first = f"{{servers: 'a:1,b:2', topic: t.1, partitions: 3, options: {options}, on_outage: stop}}"
    sinks = f"[{{kafka: {first}}}, {{kafka: 'a:1'}}]"
    pipeline = load_pipeline(written(tmp_path, sinks))
    said, short = pipeline.outputs["totals"].sinks
    assert isinstance(said, KafkaSink)
    assert (said.servers, said.topic, said.partitions, said.compacted) == ("a:1,b:2", "t.1", 3, False)
    assert said.options["enable.ssl.certificate.verification"] is False
    assert short == KafkaSink(servers="a:1")
    assert "SECRET" not in repr(pipeline)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"sinks": "[{kafka: {topic: t}}]"}, "sinks[0].servers: is missing"),
        ({"sinks": "[{kafka: {servers: a, topic: 'a b'}}]"}, "sinks[0].topic: is no topic"),
        ({"sinks": "[{kafka: {servers: a, tpic: b}}]"}, "did you mean topic"),
        ({"sinks": "[{kafka: {servers: a, options: {acks: 1}}}]"}, "acks is set by latecomer"),
        ({"sinks": "[{kafka: a}, {kafka: a}]"}, "writes where output totals writes already"),
        ({"others": "[{kafka: {servers: a, topic: b}}]"}, "append only and cannot take the updates"),
        (
            {"others": "[{kafka: {servers: a, topic: b, compacted: true}}]", "how": "discarding"},
            "kafka keeps one pane of each window and key",
        ),
        (
            {"late": "[{kafka: {servers: a, compacted: true}}]"},
            "late_to[0].kafka.compacted: these rows are all",
        ),
    ],
)
def test_mistakes_in_the_pipeline_file(tmp_path: Path, where: dict[str, str], said: str) -> None:
    with pytest.raises(PipelineError) as raised:
        load_pipeline(written(tmp_path, **where))
    assert said in str(raised.value)
