"""Every mistake in a pipeline file is told with file, line, field, value and fix, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.mistakes_kit import GOOD, KAFKA, problems, require_named
from latecomer.config.load import check_against, parse_pipeline


def test_the_good_one_is_good(tmp_path: Path) -> None:
    pipeline = parse_pipeline(GOOD, tmp_path / "pipeline.yaml")
    check_against(pipeline, pipeline.source.columns or {})
    assert pipeline.store_path == tmp_path / "lake"


def test_the_documents_own_example_of_a_name_in_backticks_is_good(tmp_path: Path) -> None:
    text = GOOD.replace("sum(paise)", '"sum(`net amount`)"').replace("fare: double", '"net amount": bigint')
    pipeline = parse_pipeline(text, tmp_path / "pipeline.yaml")
    check_against(pipeline, pipeline.source.columns or {})
    assert pipeline.outputs["totals"].aggregates["paise"].column == "net amount"


@pytest.mark.parametrize(
    ("written", "instead", "line", "field", "fix"),
    [
        ("partition: tower", "partitin: tower", 6, "event.partitin", "did you mean partition?"),
        ("ledger: [paise]", "columns: {rupees: pise}", 8, "columns.rupees", "did you mean paise?"),
        ("ledger: [paise]", "columns: {fare: paise}", 8, "columns.fare", "choose another name"),
        ("ledger: [paise]", "columns: {a: fare, b: fare}", 8, "columns.b", "keep one of a and b"),
        (
            "ledger: [paise]",
            "columns: {a: net amount}",
            8,
            "columns.a",
            "in backticks where it is no plain word",
        ),
        ("ledger: [paise]", "columns: {a.b: fere}", 8, "columns.a.b", "did you mean fare?"),
        ("ledger: [paise]", "columns: {rupees: fare}\nledger: [fare]", 9, "ledger[0]", "the source has"),
        ("arrivals/*.json", "arrivals/[*.json", 4, "source.files.path", "in/**/*.json"),
        ("arrivals/*.json", "arrivals/a**.json", 4, "source.files.path", "in/**/*.json"),
        ("fare: double}", "fare: double, Fare: double}", 5, "source.schema", 'columns: {Fare_: "Fare"}'),
        ("delay: 30s", "delay: 30 seconds", 7, "watermark.delay", "write a number and a unit"),
        ("delay: 30s", "delay: -10s", 7, "watermark.delay", "write 0, or one such as 30s"),
        ("delay: 30s", "delay: 30s, delays: {7: 5m}", 7, "watermark.delays.7", 'in quotes: "7"'),
        ("{strategy: bounded, delay: 30s", "{1: 2", 7, "watermark.1", 'in quotes: "1"'),
        ("delay: 30s", "delay: 30s, every: evnt", 7, "watermark.every", "write a number and a unit"),
        ("strategy: bounded", "strategy: bounde", 7, "watermark.strategy", "use 'bounded', 'ascending'"),
        ("delay: 30s", "delay: 30s, p: 0.9", 7, "watermark.p", "the keys here are"),
        (
            "delay: 30s",
            "delay: 30s, delays: {t7: soon}",
            7,
            "watermark.delays.t7",
            "write a number and a unit",
        ),
        ("bounded, delay: 30s", "percentile, of: 10", 7, "watermark.of", "write 100 or more"),
        ("bounded, delay: 30s", "percentile, p: 95", 7, "watermark.p", "such as 0.95"),
        ("bounded, delay: 30s", "adaptive, at_least: 1h", 7, "watermark", "at_most: 1h or more"),
        (
            "bounded, delay: 30s",
            "adaptive, complete: 1",
            7,
            "watermark.complete",
            "did you mean completeness?",
        ),
        ("bounded, delay: 30s", "punctuated", 7, "watermark", "write either where: or marker:"),
        ("bounded, delay: 30s", "punctuated, marker: txm", 7, "watermark.marker", "did you mean txn?"),
        ("bounded, delay: 30s", "punctuated, marker: paise", 7, "watermark.marker", "add event.unit"),
        (
            "partition: tower}\nwatermark: {strategy: bounded,",
            "zone: UTC}\nwatermark: {delays: {t7: 5m},",
            7,
            "watermark.delays",
            "name the column in event.partition",
        ),
        (
            "order_by: arrival_time",
            "order_by: arrival_time, encoding: latin-99",
            4,
            "source.files.encoding",
            "there are utf-8, us-ascii, iso-8859-1",
        ),
        (
            "order_by: arrival_time",
            "order_by: arrival_time, format: parquet, encoding: latin-1",
            4,
            "source.files",
            "leave it out",
        ),
        ("ledger: [paise]", "ledger: [fare]", 8, "ledger[0]", "decimal(18,2)"),
        (
            "ledger: [paise]",
            "columns: {events: paise}\nledger: [events]",
            9,
            "ledger[0]",
            "is the name of what the ledger counts by itself (value: 'events')\n    fix: rename it on the way in: "
            'columns: {paise_: "paise"}',
        ),
        ("tower: string", "tower: text8", 5, "source.schema.tower", "did you mean text? there are"),
        ("fare: double", "fare: integr", 5, "source.schema.fare", "did you mean integer? there are"),
        (
            "fare: double",
            "fare: 'numeric(12,2)'",
            5,
            "source.schema.fare",
            "did you mean decimal(12,2)? there",
        ),
        (
            "order_by: arrival_time",
            "order_by: arrival_time, format: csv, encoding: cp1225",
            4,
            "source.files.encoding",
            "unknown encoding (value: 'cp1225')\n    fix: did you mean cp1252? there are utf-8, ",
        ),
        ("time: event_time", "time: paise", 6, "event.time", "add event.unit"),
        ("id: txn", "id: [txn, towr]", 6, "event.id[1]", "did you mean tower?"),
        ("id: txn", "id: [towr]", 6, "event.id", "did you mean tower?"),
        ("id: txn", "id: [txn, txn]", 6, "event.id", "name each once"),
        ("id: txn", "id: []", 6, "event.id", "name at least one column"),
        ("id: txn", "id: [txn, 5]", 6, "event.id", "name one, or several in a list"),
        ("id: txn", "id: {txn: tower}", 6, "event.id", "name one, or several in a list"),
        ("id: txn", "producer: tower, producer_seq: txn", 6, "event.producer_seq", "txn: bigint"),
        ("id: txn", "producer: tower, producer_seq: fare", 6, "event.producer_seq", "fare: bigint"),
        ("delay: 30s", "delay: -30s", 7, "watermark.delay", "write 0, or one such as 30s"),
        ("idle_after: 2m", "idle_after: -2m", 7, "watermark.idle_after", "write one such as 30s"),
        ("bounded, delay: 30s", "percentile, of: 0", 7, "watermark.of", "write 1 or more"),
        ("bounded, delay: 30s", "adaptive, of: 2.5", 7, "watermark.of", "write a whole number"),
        ("strategy: bounded", "strategy: 'garb:'", 7, "watermark.strategy", "such as my_rules:SlowMornings"),
        ("store: ./lake", "store: ''", 2, "store", "write at least one character"),
        ("store: ./lake", "store: 5", 2, "store", "write text"),
        ("name: upi", "name: u-pi", 1, "name", "use a-z, A-Z, 0-9 and _ only"),
        (
            "ledger: [paise]",
            "ledger: [paise]\nschedule: {totals: {last: 4h}}",
            9,
            "schedule.totals",
            "write either `every` or `cron`",
        ),
        ("name: upi", "name: upi\nbase: x", 2, "base", "did you mean lease"),
        ("name: upi", "name: upi\nname: again", 2, "name", "keep one of the two"),
        (
            "  schema: {",
            "  my.sources.Outbox: {}\n  schema: {",
            5,
            "source.my.sources.Outbox",
            "write a source of your own as module:Class, my.sources:Outbox: {…}",
        ),
        ("store: ./lake", "store: [", 4, "pipeline file", "check indentation"),
        (
            "store: ./lake",
            "store: ./lake\nretention: {event: 7d}",
            3,
            "retention.event",
            "did you mean events?",
        ),
        ("store: ./lake", "store: ./lake\nupkeep: {evry: 1h}", 3, "upkeep.evry", "did you mean every?"),
        ("store: ./lake", "store: ./lake\nstorage: {regin: x}", 3, "storage.regin", "did you mean region?"),
        (
            "store: ./lake",
            "store: ./lake\nschedule: {totals: {last: 1d, evry: 1h}}",
            3,
            "schedule.totals.evry",
            "did you mean every?",
        ),
        (
            "  schema:",
            "  numbers: {decimal: ','}\n  schema:",
            5,
            "source.numbers.decimal",
            "did you mean decimal_sign?",
        ),
    ],
)
def test_a_mistake_names_its_place_and_its_fix(
    tmp_path: Path, written: str, instead: str, line: int, field: str, fix: str
) -> None:
    require_named(tmp_path, written, instead, line, field, fix)


@pytest.mark.parametrize("zone", ["localtime", "Factory", "ROC"])
def test_a_zone_that_java_does_not_know_is_refused(tmp_path: Path, zone: str) -> None:
    (event,) = problems(GOOD.replace("time: event_time", f"time: event_time, zone: {zone}"), tmp_path)
    (window,) = problems(GOOD.replace("tumbling: 1m", f"calendar: day, zone: {zone}"), tmp_path)
    for outcome, field in ((event, "event.zone"), (window, "outputs.totals.window.zone")):
        assert f"{field}: not a time zone (value: '{zone}')" in outcome
        assert "fix: write an IANA name such as Asia/Kolkata" in outcome


def test_a_place_to_start_at_is_checked_by_its_own_fields(tmp_path: Path) -> None:
    source = "  kafka: {servers: localhost:9092, topics: [a], start: {%s}}"
    lines = [source if "files:" in line else line for line in GOOD.splitlines()]
    text = "\n".join(lines)
    assert any("start.offset: unknown key" in each for each in problems(text % "offset: {}", tmp_path))
    assert any("did you mean offsets?" in each for each in problems(text % "offset: {}", tmp_path))
    assert (
        parse_pipeline(text % 'offsets: {a: {"0": 17}}', tmp_path / "pipeline.yaml").source.kafka is not None
    )


@pytest.mark.parametrize("cron", ["60 * * * *", "*/0 * * * *", "0 5-2 * * *", "0 0 0 * *", "0 0 * * 8"])
def test_a_schedule_that_cron_would_refuse_is_refused(tmp_path: Path, cron: str) -> None:
    text = GOOD.replace("ledger:", f'schedule: {{totals: {{last: 1d, cron: "{cron}"}}}}\nledger:')
    assert any("schedule.totals.cron: has " in each for each in problems(text, tmp_path))


def test_every_mistake_is_told_not_only_the_first(tmp_path: Path) -> None:
    text = GOOD.replace("delay: 30s", "delay: soon").replace("late: update", "late: maybe")
    assert len(problems(text, tmp_path)) == 2


@pytest.mark.parametrize(
    ("setting", "outcome"),
    [("max_line: 16 MB", "write one such as 512KiB"), ("max_line: 1", "from 1KiB to 1GiB")],
)
def test_sizes_are_checked(tmp_path: Path, setting: str, outcome: str) -> None:
    (problem,) = problems(GOOD.replace("order_by:", f"{setting}, order_by:"), tmp_path)
    assert "source.files.max_line" in problem
    assert outcome in problem


def test_an_option_of_javas_client_is_refused(tmp_path: Path) -> None:
    options = 'options: {java.max.poll.records: 5, sasl.password: "${env:NO_WORD}"}'
    written = KAFKA.replace('options: {sasl.password: "${env:NO_WORD}"}', options)
    (outcome,) = problems(written, tmp_path)
    assert "source.kafka.options: java.max.poll.records is an option of Java's client" in outcome
    assert "fix: write max.poll.records if librdkafka has it, or leave it out" in outcome


def test_a_wrong_type_is_reported_at_its_column(tmp_path: Path) -> None:
    written = GOOD.replace("fare: double}", "fare: integr}")
    start, end = written.index("  schema: {"), written.index("event: {")
    columns = written[start:end].strip().removeprefix("schema: {").removesuffix("}").split(", ")
    block = "  schema:\n" + "".join(f"    {column}\n" for column in columns)
    (outcome,) = problems(written[:start] + block + written[end:], tmp_path)
    assert (
        "pipeline.yaml:11: source.schema.fare: unknown type 'integr'\n    fix: did you mean integer?"
        in outcome
    )
