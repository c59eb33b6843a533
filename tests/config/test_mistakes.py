"""Every mistake in a pipeline file is told with file, line, field, value and fix, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.load import (
    check_against,
    check_renames,
    check_secrets,
    doubts,
    load_pipeline,
    parse_pipeline,
    warnings,
)
from latecomer.errors import PipelineError

GOOD = """\
name: upi
store: ./lake
source:
  files: {path: "arrivals/*.json", order_by: arrival_time}
  schema: {event_time: string, arrival_time: string, txn: string, tower: string, paise: bigint, fare: double}
event: {time: event_time, id: txn, partition: tower}
watermark: {strategy: bounded, delay: 30s, idle_after: 2m}
ledger: [paise]
outputs:
  totals:
    window: {tumbling: 1m}
    by: [tower]
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 5m
    late: update
    sinks: [{sqlite: results.db}]
"""


def problems(text: str, folder: Path) -> list[str]:
    file = folder / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PipelineError) as caught:
        _load(text, file)
    return [str(problem) for problem in caught.value.problems]


def _load(text: str, file: Path) -> None:
    pipeline = parse_pipeline(text, file)
    check_renames(pipeline, pipeline.source.columns or {}, file)
    check_against(pipeline, pipeline.declared_columns or {}, file)


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
        ("window: {tumbling: 1m}", "window: {[a]: 1m}", 11, "outputs.totals.window", "write `name: value`"),
        (
            "aggregates: {paise",
            "aggregates: {no: count(*), paise",
            13,
            "outputs.totals.aggregates.no",
            '"no"',
        ),
        ("delay: 30s", "delay: 30s, every: evnt", 7, "watermark.every", "write a number and a unit"),
        ("strategy: bounded", "strategy: bounde", 7, "watermark.strategy", "use 'bounded', 'ascending'"),
        ("delay: 30s", "delay: 30s, p: 0.9", 7, "watermark.p", "the keys here are"),
        (
            "aggregates: {paise",
            "aggregates: {op: count(*), paise",
            13,
            "outputs.totals.aggregates.op",
            "every pane has",
        ),
        ("allowed_lateness:", "on_error: nul\n    allowed_lateness:", 14, "outputs.totals.on_error", "null"),
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
        ("by: [tower]", "by: [towr]", 12, "outputs.totals.by[0]", "did you mean tower?"),
        ("sum(paise)", "sum(pais)", 13, "outputs.totals.aggregates.paise", "did you mean paise?"),
        ("sum(paise)", "sum(txn)", 13, "outputs.totals.aggregates.paise", "declare the column as a number"),
        (
            "sum(paise)",
            "sum(paise * 2)",
            13,
            "outputs.totals.aggregates.paise",
            'write sum(paise), or name what is computed: columns: {NAME: "paise * 2"}',
        ),
        (
            "count(*)",
            "count(distinct tower + 1)",
            13,
            "outputs.totals.aggregates.payments",
            "write count(distinct tower), or name",
        ),
        (
            "sum(paise)",
            "sum(abs(paise))",
            13,
            "outputs.totals.aggregates.paise",
            "one function of one column",
        ),
        ("sum(paise)", "sum(net amount)", 13, "outputs.totals.aggregates.paise", "the source has event_time"),
        (
            "sum(paise)",
            "sum(event_time)",
            13,
            "outputs.totals.aggregates.paise",
            "name another column, or use",
        ),
        (
            "sum(paise)",
            "median(tower)",
            13,
            "outputs.totals.aggregates.paise",
            "declare the column as a number",
        ),
        ("sum(paise)", "collect_list(paise)", 13, "outputs.totals.aggregates.paise", "did you mean collect("),
        ("sum(paise)", "total(paise)", 13, "outputs.totals.aggregates.paise", "there are sum, count"),
        ("late: update", "late: updat", 15, "outputs.totals.late", "'update'"),
        ("sqlite: results.db", "jsonl: changes", 16, "outputs.totals.sinks[0]", "use late: retract"),
        (
            "sqlite: results.db",
            "sqlite: {path: results.db, table: my-table}",
            16,
            "outputs.totals.sinks[0].table",
            "use a-z, A-Z, 0-9 and _",
        ),
        (
            "sqlite: results.db",
            "sqlit: results.db",
            16,
            "outputs.totals.sinks[0]",
            "there are delta, iceberg, sqlite",
        ),
        (
            "sqlite: results.db",
            "duckdb: {path: r, table: a b}",
            16,
            "outputs.totals.sinks[0].table",
            "use a-z, A-Z",
        ),
        (
            "sqlite: results.db",
            "iceberg: minutes",
            16,
            "outputs.totals.sinks[0].table",
            "write NAMESPACE.NAME",
        ),
        (
            "sqlite: results.db",
            "iceberg: {table: a.b, propertys: {}}",
            16,
            "outputs.totals.sinks[0].propertys",
            "did you mean properties?",
        ),
        (
            "sqlite: results.db",
            "iceberg: {catalog: lake}",
            16,
            "outputs.totals.sinks[0].table",
            "",
        ),
        (
            "sqlite: results.db",
            "postgres: {target: host=db, schemas: x}",
            16,
            "outputs.totals.sinks[0].schemas",
            "did you mean schema?",
        ),
        (
            "sqlite: results.db",
            "delta: {path: r, tabel: x}",
            16,
            "outputs.totals.sinks[0].tabel",
            "the keys here are on_outage, max_behind, path",
        ),
        (
            "sqlite: results.db",
            f"postgres: {{target: host=db, table: {'ü' * 32}}}",
            16,
            "outputs.totals.sinks[0].table",
            "choose a shorter one",
        ),
        (
            "sqlite: results.db",
            "postgres: {table: x}",
            16,
            "outputs.totals.sinks[0].target",
            "add target:",
        ),
        (
            "sqlite: results.db",
            "sqlite: {path: r.db, tabel: x}",
            16,
            "outputs.totals.sinks[0].tabel",
            "did you mean table?",
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
        ("tower: string", "tower: text8", 5, "source.schema.tower", "did you mean text? there are"),
        ("fare: double", "fare: integr", 5, "source.schema.fare", "did you mean integer? there are"),
        ("time: event_time", "time: paise", 6, "event.time", "add event.unit"),
        ("id: txn", "id: [txn, towr]", 6, "event.id[1]", "did you mean tower?"),
        ("id: txn", "id: [towr]", 6, "event.id", "did you mean tower?"),
        ("id: txn", "id: [txn, txn]", 6, "event.id", "name each once"),
        ("id: txn", "id: []", 6, "event.id", "name at least one column"),
        ("id: txn", "id: [txn, 5]", 6, "event.id", "name one, or several in a list"),
        ("id: txn", "id: {txn: tower}", 6, "event.id", "name one, or several in a list"),
        ("id: txn", "producer: tower, producer_seq: txn", 6, "event.producer_seq", "txn: bigint"),
        ("id: txn", "producer: tower, producer_seq: fare", 6, "event.producer_seq", "fare: bigint"),
        ("payments: count", "tower: count", 13, "outputs.totals.aggregates.tower", "choose another name"),
        (
            "payments: count",
            "sequence: count",
            13,
            "outputs.totals.aggregates.sequence",
            "choose another name",
        ),
        (
            "allowed_lateness: 5m",
            "allowed_lateness: 1m\n    too_late: drop",
            14,
            "outputs.totals.allowed_lateness",
            "too_late: side_output",
        ),
        (
            "tumbling: 1m",
            "tumbling: 7h, zone: Asia/Kolkata",
            11,
            "outputs.totals.window",
            "write 15m, 1h, 6h, 1d",
        ),
        ("tumbling: 1m", "tumblin: 1m", 11, "outputs.totals.window", "did you mean tumbling?"),
        ("tumbling: 1m", "tumbling: 1m, session: 5m", 11, "outputs.totals.window", "keep one of them"),
        (
            "tumbling: 1m",
            "tumbling: 1m, every: 1s",
            11,
            "outputs.totals.window.every",
            "keys here are tumbling",
        ),
        ("tumbling: 1m", "sliding: 1m", 11, "outputs.totals.window.every", "add every:"),
        ("tumbling: 1m", "sliding: 1m, every: 2m", 11, "outputs.totals.window", "write every: 1m or less"),
        ("tumbling: 1m", "session: 5m, max: 1m", 11, "outputs.totals.window", "write max: 5m or more"),
        ("tumbling: 1m", "session: 5 m", 11, "outputs.totals.window.session", "write a number and a unit"),
        ("tumbling: 1m", "calendar: moth", 11, "outputs.totals.window.calendar", "'month'"),
        ("tumbling: 1m", "calendar: day, zone: Delhi", 11, "outputs.totals.window.zone", "IANA name"),
        (
            "late: update",
            "late: update\n    trigger: {early: {every: 1m, clok: event}}",
            16,
            "outputs.totals.trigger.early.clok",
            "did you mean clock?",
        ),
        (
            "late: update",
            "late: update\n    trigger: {late: 30s}",
            16,
            "outputs.totals.trigger.late",
            "write batch, every 30s",
        ),
        (
            "late: update",
            "late: retract\n    accumulation: discarding",
            16,
            "outputs.totals.accumulation",
            "leave accumulation out",
        ),
        (
            "payments: count(*)}",
            "mean: avg(paise)}\n    accumulation: discarding",
            13,
            "outputs.totals.aggregates.mean",
            "use sum, count, min or max",
        ),
        (
            "payments: count(*)}",
            "payers: count(distinct txn)}\n    accumulation: discarding",
            13,
            "outputs.totals.aggregates.payers",
            "use sum, count, min or max",
        ),
        (
            "late: update",
            "late: update\n    accumulation: discarding",
            17,
            "outputs.totals.sinks[0]",
            "a change stream",
        ),
        (
            "late: update\n    sinks: [{sqlite: results.db}]",
            "late: drop\n    trigger: {early: 1m}\n    sinks: [{jsonl: changes}]",
            17,
            "outputs.totals.sinks[0]",
            "use accumulation: retracting or discarding",
        ),
        (
            "window: {tumbling: 1m}",
            "window: {session: 5m}\n    emit_empty: true",
            12,
            "outputs.totals.emit_empty",
            "use tumbling, sliding or calendar windows",
        ),
        (
            "payments: count(*)",
            "new: 'collect(txn, 3)'",
            13,
            "outputs.totals.aggregates.new",
            "choose another name",
        ),
        (
            "payments: count(*)",
            "a: stddev(paise), a_rough: avg(paise)",
            13,
            "outputs.totals.aggregates.a_rough",
            "choose another name",
        ),
        ("payments: count", "is_last: count", 13, "outputs.totals.aggregates.is_last", "choose another name"),
        ("delay: 30s", "delay: -30s", 7, "watermark.delay", "write 0, or one such as 30s"),
        ("idle_after: 2m", "idle_after: -2m", 7, "watermark.idle_after", "write one such as 30s"),
        ("tumbling: 1m", "tumbling: -1m", 11, "outputs.totals.window.tumbling", "write one such as 30s"),
        (
            "allowed_lateness: 5m",
            "allowed_lateness: 110000000d",
            14,
            "outputs.totals.allowed_lateness",
            "write 365243d or less",
        ),
        (
            "tumbling: 1m",
            "sliding: 30d, every: 1us",
            11,
            "outputs.totals.window",
            "every: 4m19s200ms or more",
        ),
        ("bounded, delay: 30s", "percentile, of: 0", 7, "watermark.of", "write 1 or more"),
        ("bounded, delay: 30s", "adaptive, of: 2.5", 7, "watermark.of", "write a whole number"),
        ("strategy: bounded", "strategy: 'garb:'", 7, "watermark.strategy", "such as my_rules:SlowMornings"),
        (
            "late: update",
            "late: update\n    trigger: {early: {count: 0}}",
            16,
            "outputs.totals.trigger.early.count",
            "write 1 or more",
        ),
        ("by: [tower]", "by: tower", 12, "outputs.totals.by", "write a list"),
        ("store: ./lake", "store: ''", 2, "store", "write at least one character"),
        ("store: ./lake", "store: 5", 2, "store", "write text"),
        ("name: upi", "name: u-pi", 1, "name", "use a-z, A-Z, 0-9 and _ only"),
        ("  totals:", "  to-tals:", 9, "outputs", "use a-z, A-Z, 0-9 and _ only"),
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
        (
            "paise: sum(paise)",
            "paise: {function: sun, column: paise}",
            13,
            "outputs.totals.aggregates.paise",
            "unknown function sun",
        ),
    ],
)
def test_a_mistake_names_its_place_and_its_fix(
    tmp_path: Path, written: str, instead: str, line: int, field: str, fix: str
) -> None:
    outcome = problems(GOOD.replace(written, instead, 1), tmp_path)
    assert any(f"pipeline.yaml:{line}: {field}: " in each and fix in each for each in outcome), outcome


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("window: {tumbling: 1m}", "window: {sliding: 5m, every: 1m}\n    emit_empty: true"),
        ("window: {tumbling: 1m}\n    by: [tower]", "window: {calendar: month}\n    emit_empty: true"),
        ("window: {tumbling: 1m}", "window: {session: 30m, max: 8h}"),
        ("window: {tumbling: 1m}", "window: {global: true}\n    trigger: {early: 1m, late: every 30s}"),
        ("[{sqlite: results.db}]", "[{jsonl: changes}]\n    accumulation: discarding"),
        (
            "[{sqlite: results.db}]",
            "[{jsonl: changes}]\n    accumulation: retracting\n    trigger: {early: 1m}",
        ),
        ("update\n    sinks: [{sqlite: results.db}]", "side_output\n    sinks: [{jsonl: changes}]"),
    ],
)
def test_the_other_windows_and_modes_are_good_too(tmp_path: Path, written: str, instead: str) -> None:
    assert written in GOOD
    _load(GOOD.replace(written, instead, 1), tmp_path / "pipeline.yaml")


@pytest.mark.parametrize("zone", ["localtime", "Factory", "ROC"])
def test_a_zone_that_java_does_not_know_is_refused(tmp_path: Path, zone: str) -> None:
    (event,) = problems(GOOD.replace("time: event_time", f"time: event_time, zone: {zone}"), tmp_path)
    (window,) = problems(GOOD.replace("tumbling: 1m", f"calendar: day, zone: {zone}"), tmp_path)
    for outcome, field in ((event, "event.zone"), (window, "outputs.totals.window.zone")):
        assert f"{field}: not a time zone (value: '{zone}')" in outcome
        assert "fix: write an IANA name such as Asia/Kolkata" in outcome


def test_outputs_must_not_be_empty(tmp_path: Path) -> None:
    (outcome,) = problems(GOOD[: GOOD.index("outputs:")] + "outputs: {}\n", tmp_path)
    assert "pipeline.yaml:9: outputs: is empty (value: {})" in outcome
    assert "fix: name at least one" in outcome


def test_an_event_may_be_in_many_windows_but_not_in_any_number(tmp_path: Path) -> None:
    most = GOOD.replace("tumbling: 1m", "sliding: 10000s, every: 1s")
    _load(most, tmp_path / "pipeline.yaml")
    (outcome,) = problems(most.replace("10000s", "10000s1us"), tmp_path)
    assert "an event would be in 10001 windows, and 10000 is the most" in outcome


def test_a_key_that_stands_twice_is_one_mistake_with_its_line(tmp_path: Path) -> None:
    (only,) = problems(GOOD.replace("ledger: [paise]", "name: other"), tmp_path)
    assert ":8: name: is written twice" in only
    assert "not valid YAML" not in only


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ('{_lc_x: "paise / 100"}', "columns._lc_x: is not a usable name"),
        ('{Rupees: "paise / 100", rupees: "paise / 100"}', "columns.rupees: columns differ only in case"),
    ],
)
def test_the_own_columns_of_an_output_have_usable_names(tmp_path: Path, columns: str, problem: str) -> None:
    text = GOOD.replace("late: update", f"late: update\n    columns: {columns}")
    assert any(f"outputs.totals.{problem}" in each for each in problems(text, tmp_path))


def test_a_list_with_a_wrong_entry_is_not_too_short(tmp_path: Path) -> None:
    text = GOOD.replace("late: update", "late: update\n    trigger: {early: {any: [{count: 1, foo: 2}]}}")
    (only,) = problems(text, tmp_path)
    assert "trigger.early.any[0].foo: unknown key" in only


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


def test_two_outputs_must_not_share_a_sink(tmp_path: Path) -> None:
    again = (
        GOOD[GOOD.index("  totals:") :]
        .replace("totals:", "others:")
        .replace("results.db", "{path: results.db, table: totals}")
    )
    (outcome,) = problems(GOOD + again, tmp_path)
    assert "writes where output totals writes already" in outcome


@pytest.mark.parametrize(
    ("own", "clashing"),
    [
        ("sqlite: results.db", "sqlite: {path: results.db, table: second}"),
        ("kafka: {servers: a, compacted: true}", "kafka: {servers: a, compacted: true, topic: second}"),
    ],
)
def test_of_several_sinks_at_a_place_the_one_that_clashes_is_named(
    tmp_path: Path, own: str, clashing: str
) -> None:
    head, output = GOOD.split("  totals:")
    outputs = {"first": own, "second": own, "third": clashing}
    written = (f"  {name}:{output.replace('sqlite: results.db', sink)}" for name, sink in outputs.items())
    (outcome,) = problems(head + "".join(written), tmp_path)
    assert "outputs.third.sinks[0]" in outcome
    assert "writes where output second writes already" in outcome


def test_outputs_that_differ_only_in_case_clash(tmp_path: Path) -> None:
    again = GOOD[GOOD.index("  totals:") :].replace("totals:", "Totals:")
    assert "differ only in case" in problems(GOOD + again, tmp_path)[0]


def test_json_is_accepted_as_yaml(tmp_path: Path) -> None:
    import json

    import yaml

    as_json = json.dumps(yaml.safe_load(GOOD), indent=1)
    assert parse_pipeline(as_json, tmp_path / "p.json") == parse_pipeline(GOOD, tmp_path / "p.yaml")


def test_a_file_that_refers_to_itself_is_refused(tmp_path: Path) -> None:
    assert "refers to itself" in problems("a: &x [*x]\n", tmp_path)[0]


@pytest.mark.parametrize("deep", ["[" * 1_500 + "]" * 1_500, "{a: " * 1_500 + "}" * 1_500])
def test_a_file_nested_without_end_is_refused(tmp_path: Path, deep: str) -> None:
    assert "is nested too deeply" in problems(f"a: {deep}\n", tmp_path)[0]


def test_aliases_that_multiply_are_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{nth}: &a{nth} [{', '.join([f'*a{nth - 1}'] * 10)}]" for nth in range(1, 12)]
    assert "has too many entries" in problems("\n".join(lines), tmp_path)[0]


def test_a_device_is_no_pipeline_file() -> None:
    with pytest.raises(PipelineError, match="is too large for a pipeline file"):
        load_pipeline("/dev/zero")


@pytest.mark.parametrize(
    ("setting", "outcome"),
    [("max_line: 16 MB", "write one such as 512KiB"), ("max_line: 1", "from 1KiB to 1GiB")],
)
def test_sizes_are_checked(tmp_path: Path, setting: str, outcome: str) -> None:
    (problem,) = problems(GOOD.replace("order_by:", f"{setting}, order_by:"), tmp_path)
    assert "source.files.max_line" in problem
    assert outcome in problem


def test_dropping_what_returns_from_silence_is_warned_of(tmp_path: Path) -> None:
    """Allowed, for the allowed lateness covers idle_after; but a silence may last longer than both."""
    file = tmp_path / "pipeline.yaml"

    def warned(text: str) -> list[str]:
        file.write_text(text, encoding="utf-8")
        return [str(problem) for problem in warnings(parse_pipeline(text, file), file)]

    dropping = GOOD.replace("    late: update", "    late: update\n    too_late: drop")
    (one,) = warned(dropping)
    assert one.startswith(f"{file}:16: outputs.totals.too_late: a partition that is silent for longer than")
    assert "fix: write too_late: side_output" in one
    (other,) = warned(GOOD.replace("late: update", "late: drop"))
    assert other.startswith(f"{file}:15: outputs.totals.late: a partition")
    assert warned(GOOD) == []
    assert warned(dropping.replace(", idle_after: 2m", "")) == []


def test_a_window_that_closes_silently_cannot_be_told_from_an_empty_one(tmp_path: Path) -> None:
    silent = "    trigger: {early: 1m, on_time: if_changed}\n    emit_empty: true\n"
    (outcome,) = problems(GOOD.replace("    sinks:", f"{silent}    sinks:"), tmp_path)
    assert "pipeline.yaml:16: outputs.totals.trigger.on_time: a window that closes without a pane" in outcome


def test_partitions_without_idle_after_are_warned_of_by_validate(tmp_path: Path) -> None:
    """One row with a wrong name in the partition column would hold the watermark for ever."""
    file = tmp_path / "pipeline.yaml"

    def warned(text: str) -> list[str]:
        file.write_text(text, encoding="utf-8")
        return [str(problem) for problem in doubts(parse_pipeline(text, file), file)]

    assert warned(GOOD) == []
    (one,) = warned(GOOD.replace(", idle_after: 2m", ""))
    assert "watermark.idle_after: is not set, so the watermark waits for every" in one
    assert "idle_after: 5m" in one
    (of_kafka,) = warned(KAFKA)
    assert "waits for every partition of the topics: one that has no records, or falls silent" in of_kafka
    assert warned(KAFKA.replace("delay: 1m", "delay: 1m, idle_after: 5m")) == []


KAFKA = """
name: shops
store: ./store
source:
  kafka: {servers: "${env:NO_SERVERS}", topics: [a], options: {sasl.password: "${env:NO_WORD}"}}
  schema: {at: string}
event: {time: at}
watermark: {delay: 1m}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {events: count(*)}
    late_to: [{kafka: "${env:NO_SINK}"}]
dead_letters_to: [{postgres: "${env:NO_TARGET}"}]
"""


def test_every_reference_to_nothing_is_told(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(KAFKA, encoding="utf-8")
    with pytest.raises(PipelineError) as refused:
        check_secrets(parse_pipeline(KAFKA, file), file)
    outcome = {(problem.field, problem.line, problem.value) for problem in refused.value.problems}
    assert outcome == {
        ("source.kafka.servers", 5, "${env:NO_SERVERS}"),
        ("source.kafka.options.sasl.password", 5, "${env:NO_WORD}"),
        ("outputs.totals.late_to[0].servers", 13, "${env:NO_SINK}"),
        ("dead_letters_to[0].target", 14, "${env:NO_TARGET}"),
    }


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


def test_a_zone_with_a_typing_error_is_suggested(tmp_path: Path) -> None:
    (outcome,) = problems(GOOD.replace("tumbling: 1m", "tumbling: 1m, zone: Europe/Berlinn"), tmp_path)
    assert "fix: did you mean Europe/Berlin?" in outcome


@pytest.mark.parametrize(("instead", "opened"), [("{tumbling: 1m", "bracket"), ('{tumbling: "1m}', "quote")])
def test_what_is_not_closed_is_reported_with_the_line_that_opens_it(
    tmp_path: Path, instead: str, opened: str
) -> None:
    (outcome,) = problems(GOOD.replace("{tumbling: 1m}", instead), tmp_path)
    assert f"on this line, and whether the {opened} of line 11 is closed" in outcome


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty\n    fix: start with `name:`"),
        (b"# nothing yet\n", "is empty\n    fix: start with `name:`"),
        (
            b"name: \xff\n",
            "byte 7 is not text in UTF-8\n    fix: save it as text in UTF-8, or correct the path",
        ),
        (None, "is a folder\n    fix: name a pipeline file"),
    ],
)
def test_a_file_that_is_no_pipeline_says_what_it_is(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    file = tmp_path / "p"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(PipelineError) as refused:
        load_pipeline(file)
    assert message in str(refused.value)


def test_a_pipeline_file_without_the_right_to_read_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "p.yaml")

    monkeypatch.setattr("builtins.open", denied)
    with pytest.raises(
        PipelineError, match=r"cannot be read: Permission denied\n    fix: .*the right to read it"
    ):
        load_pipeline(tmp_path / "p.yaml")
