"""Mistakes in an output: its windows, keys, aggregates, triggers and lateness."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.mistakes_kit import GOOD, load, problems, require_named


@pytest.mark.parametrize(
    ("written", "instead", "line", "field", "fix"),
    [
        ("window: {tumbling: 1m}", "window: {[a]: 1m}", 11, "outputs.totals.window", "write `name: value`"),
        (
            "aggregates: {paise",
            "aggregates: {no: count(*), paise",
            13,
            "outputs.totals.aggregates.no",
            '"no"',
        ),
        (
            "aggregates: {paise",
            "aggregates: {op: count(*), paise",
            13,
            "outputs.totals.aggregates.op",
            "every pane has",
        ),
        ("allowed_lateness:", "on_error: nul\n    allowed_lateness:", 14, "outputs.totals.on_error", "null"),
        ("by: [tower]", "by: [towr]", 12, "outputs.totals.by[0]", "did you mean tower?"),
        ("sum(paise)", "sum(pais)", 13, "outputs.totals.aggregates.paise", "did you mean paise?"),
        (
            "sum(paise)",
            "sum(txn)",
            13,
            "outputs.totals.aggregates.paise",
            "declare the column as a number in source.schema, or use count, min or max; set source.numbers if csv or "
            "json has numbers such as 1.234,56",
        ),
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
        (
            "late: update",
            "late: update\n    trigger: {early: {count: 0}}",
            16,
            "outputs.totals.trigger.early.count",
            "write 1 or more",
        ),
        ("by: [tower]", "by: tower", 12, "outputs.totals.by", "write a list"),
        ("  totals:", "  to-tals:", 9, "outputs", "use a-z, A-Z, 0-9 and _ only"),
        (
            "paise: sum(paise)",
            "paise: {function: sun, column: paise}",
            13,
            "outputs.totals.aggregates.paise",
            "unknown function sun",
        ),
    ],
)
def test_a_mistake_in_an_output_names_its_place_and_its_fix(
    tmp_path: Path, written: str, instead: str, line: int, field: str, fix: str
) -> None:
    require_named(tmp_path, written, instead, line, field, fix)


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
    load(GOOD.replace(written, instead, 1), tmp_path / "pipeline.yaml")


def test_outputs_must_not_be_empty(tmp_path: Path) -> None:
    (outcome,) = problems(GOOD[: GOOD.index("outputs:")] + "outputs: {}\n", tmp_path)
    assert "pipeline.yaml:9: outputs: is empty (value: {})" in outcome
    assert "fix: name at least one" in outcome


def test_outputs_that_differ_only_in_case_clash(tmp_path: Path) -> None:
    again = GOOD[GOOD.index("  totals:") :].replace("totals:", "Totals:")
    assert "differ only in case" in problems(GOOD + again, tmp_path)[0]


def test_an_event_may_be_in_many_windows_but_not_in_any_number(tmp_path: Path) -> None:
    most = GOOD.replace("tumbling: 1m", "sliding: 10000s, every: 1s")
    load(most, tmp_path / "pipeline.yaml")
    (outcome,) = problems(most.replace("10000s", "10000s1us"), tmp_path)
    assert "an event would be in 10001 windows, and 10000 is the most" in outcome


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


def test_a_window_that_closes_silently_cannot_be_told_from_an_empty_one(tmp_path: Path) -> None:
    silent = "    trigger: {early: 1m, on_time: if_changed}\n    emit_empty: true\n"
    (outcome,) = problems(GOOD.replace("    sinks:", f"{silent}    sinks:"), tmp_path)
    assert "pipeline.yaml:16: outputs.totals.trigger.on_time: a window that closes without a pane" in outcome


def test_a_zone_with_a_typing_error_is_suggested(tmp_path: Path) -> None:
    (outcome,) = problems(GOOD.replace("tumbling: 1m", "tumbling: 1m, zone: Europe/Berlinn"), tmp_path)
    assert "fix: did you mean Europe/Berlin?" in outcome


@pytest.mark.parametrize("zone", ["GMT+2", "UTC+02:00", "+0530", "utc+2"])
def test_an_offset_is_no_zone(tmp_path: Path, zone: str) -> None:
    (outcome,) = problems(GOOD.replace("tumbling: 1m", f"tumbling: 1m, zone: '{zone}'"), tmp_path)
    assert "fix: write a region such as Europe/Berlin: an offset does not follow changes of the" in outcome
