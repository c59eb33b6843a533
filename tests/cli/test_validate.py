"""What `validate` says of a pipeline: its columns, windows, triggers and strategies in words, and its mistakes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.cli_kit import NOON, PIPELINE, Cli, Lake
from cli.validate_kit import UNDECLARED, arrive
from latecomer import load_pipeline
from latecomer.config.paths import SourcePath
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store


def test_a_pipeline_is_told_in_words(undeclared: Path, cli: Cli) -> None:
    arrive(
        undeclared.parent,
        at="2026-04-25T12:00:00Z",
        arrived="2026-04-25T12:00:01Z",
        tower="n",
        merchant="a",
        paise=1,
    )
    said = cli("validate", undeclared)
    assert said.status == 0
    assert said.err.startswith(f"warning: {undeclared}:18: outputs.counts.late: a partition that is silent")
    for part in (
        "pipeline upi is valid",
        "(1 file there now)",
        "paise bigint (inferred from the files)",
        "the newest event time seen less 30s, in each tower; the slowest tower decides",
        "one that is silent for 2m no longer holds it back",
        "totals: each 1d in Asia/Kolkata and merchant: paise = sum(paise), of events where paise > 0",
        "events up to 5m late update the number, later ones go to the side output",
        "counts: each 1m: n = count(*)",
        "events that come after their window has closed are dropped",
    ):
        assert part in said.out


def test_a_source_folder_is_listed_once(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    (lake.file.parent / "arrivals").mkdir()
    (lake.file.parent / "arrivals" / "1.json").write_text('{"paise": 1}\n')
    listed, names_now = list[str](), SourcePath._names_now

    def counted(source: SourcePath) -> Iterator[str]:
        listed.append(source.written)
        return names_now(source)

    monkeypatch.setattr(SourcePath, "_names_now", counted)
    said = cli("validate", lake.file)
    assert (said.status, len(listed)) == (0, 1), said.err


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("window: {sliding: 5m, every: 1m, offset: 30s}", "each 5m, every 1m moved by 30s: n"),
        (
            "window: {session: 30m, max: 8h}",
            "each session with gaps under 30m, cut at multiples of 8h (UTC): n",
        ),
        (
            "window: {session: 30m, touching: joins, final: after_gap}\n    by: [tower]",
            "each session with gaps of at most 30m (final a gap after its lateness) and tower: n",
        ),
        ("window: {calendar: month, zone: Asia/Kolkata}", "each month in Asia/Kolkata: n"),
        ("window: {global: true}", "all of time, published in full at a drain: n"),
        (
            "window: {tumbling: 1m}\n    trigger: {early: 1m}",
            "open windows are published every 1m of arrival time",
        ),
        (
            "window: {tumbling: 1m}\n    trigger: {early: {count: 5}}",
            "open windows are published at every 5 events",
        ),
        ("window: {tumbling: 1m}\n    trigger: {late: every 30s}", "late events are published every 30s"),
        (
            "window: {tumbling: 1m}\n"
            "    trigger: {early: {any: [{when: paise > 9}, {after_first: 30s}]}, late: {count: 1}}",
            "published at each event where paise > 9 or 30s after the first event that is not published; "
            "late events are published at each event",
        ),
        (
            "window: {tumbling: 1m}\n"
            "    trigger: {early: {repeat: {all: [{count: 2}, {every: 1m}]}, until: {count: 9}}}",
            "published at every 2 events and every 1m of arrival time, until the window has 9 of them",
        ),
        (
            "window: {tumbling: 1m}\n    trigger: {early: {repeat: {count: 2, per: firing}, until: {every: 1h}}}",
            "published at every 2 events, and for the last time every 1h of arrival time",
        ),
        (
            "window: {tumbling: 1m}\n    trigger: {late: {count: 5}}",
            "late events are published at every 5 events",
        ),
        ("window: {tumbling: 1m}\n    accumulation: discarding", "panes are to be added up"),
        ("window: {tumbling: 1m}\n    emit_empty: true", "windows without events are published too"),
    ],
)
def test_windows_and_triggers_in_words(undeclared: Path, cli: Cli, written: str, said: str) -> None:
    undeclared.write_text(UNDECLARED.replace("window: {tumbling: 1m}", written), encoding="utf-8")
    assert said in cli("validate", undeclared).out


def test_without_files_the_rest_is_still_checked(undeclared: Path, cli: Cli) -> None:
    said = cli("validate", undeclared)
    assert said.status == 0
    assert "could not be checked yet" in said.out
    undeclared.write_text(UNDECLARED.replace("5m", "5 apples"), encoding="utf-8")
    assert cli("validate", undeclared).status == 2


def test_a_column_that_is_not_there_is_told_with_its_line(undeclared: Path, cli: Cli) -> None:
    arrive(undeclared.parent, at="2026-04-25T12:00:00Z", arrived=1, tower="n", merchants="a", paise=1)
    said = cli("validate", undeclared)
    assert (said.status, said.out) == (2, "")
    assert (
        f"{undeclared}:10: outputs.totals.by[0]: the source has no such column (value: 'merchant')"
        in said.err
    )
    assert "did you mean merchants?" in said.err


TIMES = """
name: upi
store: ./lake
source:
  files: {path: arrivals, order_by: arrived}
  schema: {at: timestamp, arrived: timestamp_ntz, due: date, n: long}
event: {time: happened, zone: Asia/Kolkata}
columns: {happened: at}
watermark: {delay: 30s}
outputs: {counts: {window: {tumbling: 1m}, aggregates: {n: sum(n)}}}
"""


def test_times_are_shown_as_declared_and_as_they_are_read(tmp_path: Path, cli: Cli) -> None:
    """As text, so that the zone applies to them; in Parquet as what they are."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(TIMES, encoding="utf-8")
    (tmp_path / "arrivals").mkdir()
    columns = (
        "happened timestamp (read as string), arrived timestamp_ntz (read as string), due date, n bigint"
    )
    assert f"columns    {columns} (declared)" in cli("validate", file).out
    pipeline = load_pipeline(file)
    Store(pipeline, source_columns(pipeline)).pin()
    assert f"columns    {columns} (pinned by the store)" in cli("validate", file).out
    file.write_text(
        TIMES.replace("order_by", "format: parquet, order_by").replace("./lake", "./other"), encoding="utf-8"
    )
    columns = "happened timestamp, arrived timestamp_ntz, due date, n bigint"
    assert f"columns    {columns} (declared)" in cli("validate", file).out


def test_declared_and_pinned_columns(unrun: Lake, cli: Cli) -> None:
    assert "token binary (declared)" in cli("validate", unrun.file).out
    unrun.store.pin()
    assert "token binary (pinned by the store)" in cli("validate", unrun.file).out
    unrun.file.write_text(PIPELINE.replace("km: double", "km: float"), encoding="utf-8")
    said = cli("validate", unrun.file)
    assert said.status == 1
    assert "source.schema differs from the columns pinned in the store: km" in said.err


def test_a_file_that_is_not_there(tmp_path: Path, cli: Cli) -> None:
    said = cli("validate", tmp_path / "nope.yaml")
    assert said.status == 2
    assert "there is no such file" in said.err


@pytest.mark.parametrize(
    ("watermark", "words"),
    [
        (
            "{delay: 30s, delays: {n7: 5m}}",
            "seen less 30s, in each tower; the slowest tower decides; n7 is given 5m",
        ),
        (
            "{strategy: percentile, of: 500}",
            "the 0.99 quantile of the event times of the newest 500 events, in each",
        ),
        (
            "{strategy: adaptive, at_least: 5s}",
            "less a delay between 5s and 10m that lets 0.99 of the newest 10000",
        ),
        (
            "{strategy: punctuated, where: paise = 0, delay: 1s}",
            "the newest event time where paise = 0 less 1s",
        ),
        ("{strategy: punctuated, marker: tower}", "the newest mark in tower"),
        ("{strategy: 'cli.cli_kit_rules:Own'}", "as cli.cli_kit_rules:Own decides"),
    ],
)
def test_every_strategy_is_told_in_words(undeclared: Path, cli: Cli, watermark: str, words: str) -> None:
    written = UNDECLARED.replace("{delay: 30s, idle_after: 2m, max_future: off}", watermark)
    undeclared.write_text(written, encoding="utf-8")
    (undeclared.parent / "arrivals").mkdir()
    said = cli("validate", undeclared)
    assert said.status == 0
    assert said.err.startswith(f"warning: {undeclared}:6: watermark.idle_after: is not set")
    assert said.err.count("warning") == 1
    assert words in said.out


def test_what_is_left_out_of_the_source_is_named(undeclared: Path, cli: Cli) -> None:
    undeclared.write_text(UNDECLARED.replace('*.json"', '*.parquet", format: parquet'), encoding="utf-8")
    moments = pa.array([NOON * 1000], pa.timestamp("ns", "UTC"))
    columns = {"at": moments, "arrived": moments, "tower": ["n"], "merchant": ["a"], "paise": [1]}
    (undeclared.parent / "arrivals").mkdir()
    halves = pa.array([[1.5]], pa.list_(pa.float16()))
    odd = {
        "tags": [["x"]],
        "halves": halves,
        "clock": pa.array([1], pa.time64("us")),
        "huge": pa.array([1], pa.uint64()),
    }
    pq.write_table(pa.table({**columns, **odd}), undeclared.parent / "arrivals" / "a.parquet")
    (undeclared.parent / "arrivals" / os.fsdecode(b"b\xe9.parquet")).write_bytes(b"")
    said = cli("validate", undeclared)
    assert said.status == 0
    assert "at timestamp, arrived timestamp, tower string, merchant string, paise bigint" in said.out
    assert "tags array<string>, huge decimal(20,0) (inferred from the files)" in said.out
    named, halves_said, clock = said.err.splitlines()[-3:]
    assert "b\\xe9.parquet' is not read: its name is not UTF-8; rename it" in named
    assert halves_said.startswith("warning: column halves (list<element: halffloat>) is left out")
    assert clock.startswith("warning: column clock (time64[us]) is left out")
    examined = cli("doctor", undeclared).out
    assert "warning  source: column halves (list<element: halffloat>) is left out" in examined


def test_an_encoding_is_told(undeclared: Path, cli: Cli) -> None:
    written = UNDECLARED.replace("order_by: arrived", "order_by: arrived, encoding: cp1252")
    undeclared.write_text(written, encoding="utf-8")
    assert "json files in windows-1252 " in cli("validate", undeclared).out


def test_a_pipeline_file_that_is_not_utf_8_is_told(undeclared: Path, cli: Cli) -> None:
    undeclared.write_bytes(UNDECLARED.replace("upi", "caf\u00e9").encode("latin-1"))
    said = cli("validate", undeclared)
    assert said.status == 2
    assert "cannot be read: byte 11 is not text in UTF-8" in said.err


def test_what_identifies_an_event_is_told_in_words(lake: Lake, cli: Cli) -> None:
    assert "repeated txn_id are duplicates" in cli("validate", lake.file).out
    lake.file.write_text(PIPELINE.replace("id: txn_id", "id: [merchant, shop]").replace("./lake", "./other"))
    outcome = cli("validate", lake.file).out
    assert (
        "events of the same merchant and shop are duplicates; each payer counts its events in shop" in outcome
    )


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            "ignore",
            "unknown    fields that are no columns are thrown away; unknown_fields: keep would keep them: "
            "note, fee.tax",
        ),
        ("", "unknown    fields that are no columns are kept with the event: note, fee.tax"),
        (
            "dead_letter",
            "unknown    fields that are no columns make their record a dead letter: note, fee.tax",
        ),
    ],
)
def test_fields_that_are_no_columns_are_named(undeclared: Path, cli: Cli, rule: str, said: str) -> None:
    schema = "schema: {at: string, arrived: string, tower: string, merchant: string, paise: bigint}"
    more = f", unknown_fields: {rule}" if rule else ""
    text = UNDECLARED.replace("order_by: arrived}}", f"order_by: arrived}}, {schema}{more}}}")
    undeclared.write_text(text, encoding="utf-8")
    arrive(undeclared.parent, at="2026-04-25T12:00:00Z", paise=1, note="x", fee={"tax": 1})
    assert said in cli("validate", undeclared).out.splitlines()
    arrive(undeclared.parent, at="2026-04-25T12:00:00Z", paise=1)
    outcome = [line for line in cli("validate", undeclared).out.splitlines() if line.startswith("unknown")]
    assert len(outcome) == (1 if rule else 0)
