"""Mistakes in the sinks of an output."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.mistakes_kit import GOOD, problems, require_named


@pytest.mark.parametrize(
    ("written", "instead", "line", "field", "fix"),
    [
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
            "sqllite: results.db",
            16,
            "outputs.totals.sinks[0]",
            "did you mean sqlite? there are",
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
    ],
)
def test_a_mistake_in_a_sink_names_its_place_and_its_fix(
    tmp_path: Path, written: str, instead: str, line: int, field: str, fix: str
) -> None:
    require_named(tmp_path, written, instead, line, field, fix)


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
