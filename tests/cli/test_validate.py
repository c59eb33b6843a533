from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cli.cli_kit import NOON, PIPELINE, Cli, Lake
from latecomer import load_pipeline
from latecomer.errors import StoreMismatch
from latecomer.store.answers import Answer, Answers
from latecomer.store.found import Found, FoundLog
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store

UNDECLARED = """
name: upi
store: ./lake
source: {files: {path: "arrivals/*.json", order_by: arrived}}
event: {time: at, partition: tower}
watermark: {delay: 30s, idle_after: 2m, max_future: off}
outputs:
  totals:
    window: {tumbling: 1d, zone: Asia/Kolkata}
    by: [merchant]
    where: "paise > 0"
    aggregates: {paise: sum(paise)}
    allowed_lateness: 5m
    late: update
  counts:
    window: {tumbling: 1m}
    aggregates: {n: count(*)}
    late: drop
"""


@pytest.fixture
def undeclared(tmp_path: Path) -> Path:
    file = tmp_path / "pipeline.yaml"
    file.write_text(UNDECLARED, encoding="utf-8")
    return file


def arrive(folder: Path, **row: object) -> None:
    (folder / "arrivals").mkdir(exist_ok=True)
    (folder / "arrivals" / "1.json").write_text(json.dumps(row) + "\n", encoding="utf-8")


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


CURE = "and run again: no batch was read yet"
CHANGES = {
    "columns": ("km: double", "km: float"),
    "output": ("paise: sum(paise)", "paise: max(paise)"),
    "ledger": ("ledger: [paise]", "ledger: []"),
}


def _refused(lake: Lake) -> str:
    pipeline = lake.pipeline
    with pytest.raises(StoreMismatch) as caught:
        Store(pipeline, source_columns(pipeline)).pins()
    return str(caught.value)


@pytest.mark.parametrize("change", CHANGES)
def test_a_store_without_any_batch_may_be_deleted(unrun: Lake, change: str) -> None:
    unrun.store.pin()
    unrun.file.write_text(PIPELINE.replace(*CHANGES[change]), encoding="utf-8")
    assert f"delete the store at {unrun.pipeline.store_path} {CURE}" in _refused(unrun)
    shutil.rmtree(unrun.pipeline.store_path)
    Store(unrun.pipeline, source_columns(unrun.pipeline)).pin()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("begun", ["dead_letters", "found", "offsets"])
def test_a_store_whose_first_batch_was_begun_is_not_to_be_deleted(
    unrun: Lake, change: str, begun: str
) -> None:
    unrun.store.pin()
    if begun == "dead_letters":  # the first table that a batch is written to
        unrun.dead_letters(0, [{"raw": "{broken"}])
    elif begun == "found":
        found = FoundLog(unrun.pipeline.store_path)
        found.open(-1, logged=False)
        found.write([Found("/a.json", 1)], size=1)
    else:
        Answers(unrun.pipeline.store_path).write(0, Answer(None, {"0": 7}))
    unrun.file.write_text(PIPELINE.replace(*CHANGES[change]), encoding="utf-8")
    assert CURE not in _refused(unrun)


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


WITH_POSTGRES = """
name: upi
store: ./lake
source: {files: {path: in, order_by: at}, schema: {at: string, paise: bigint}}
event: {time: at}
watermark: {delay: 30s}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise)}
    sinks:
      - postgres: TARGET
"""


def with_target(folder: Path, target: str) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(WITH_POSTGRES.replace("TARGET", target), encoding="utf-8")
    (folder / "in").mkdir(exist_ok=True)
    return file


@pytest.mark.parametrize(
    "target",
    [
        "postgresql://ana:hunter2@db/books",
        "host=db password=hunter2",
        "host=db password='hunter2'",
        "postgresql://ana@db/books?password=hunter2",
    ],
)
def test_a_password_in_plain_text_is_warned_of_and_hidden(tmp_path: Path, cli: Cli, target: str) -> None:
    said = cli("validate", with_target(tmp_path, target))
    assert said.status == 0
    assert "12: outputs.totals.sinks[0].target: holds a password in plain text" in said.err
    assert "fix: write ${env:NAME} or ${file:PATH} in its place" in said.err
    assert "written to postgres " in said.out
    assert "hunter2" not in said.out + said.err


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("token", "hunter2", True),
        ("credential", "id:hunter2", True),
        ("s3.secret-access-key", "hunter2", True),
        ("uri", "postgresql+psycopg2://ana:hunter2@db/catalog", True),
        ("s3.secret-access-key", "${env:HOME}", False),
        ("uri", "postgresql+psycopg2://ana:${env:HOME}@db/catalog", False),
        ("uri", "sqlite:////lake/catalog.db", False),
        ("s3.access-key-id", "AKIA", False),
    ],
)
def test_a_secret_of_a_catalog_in_plain_text_is_warned_of_and_hidden(
    tmp_path: Path, cli: Cli, name: str, value: str, is_secret: bool
) -> None:
    options = {"table": "shop.minutes", "catalog": "lake", "properties": {name: value}}
    file = with_target(tmp_path, "host=db")
    text = file.read_text("utf-8").replace("postgres: host=db", f"iceberg: {json.dumps(options)}")
    file.write_text(text, encoding="utf-8")
    said = cli("validate", file)
    assert said.status == 0, said.err
    assert (f"sinks[0].properties.{name}: holds a secret in plain text" in said.err) is is_secret
    assert "written to iceberg lake.shop.minutes" in said.out
    assert "hunter2" not in said.out + said.err


@pytest.mark.parametrize(
    "target",
    [
        "postgresql://ana:${env:PATH}@db/books",
        "host=db password=${env:PATH}",
        "${env:PATH}",
        "postgresql://ana@db/b",
    ],
)
def test_a_reference_to_a_secret_is_fine(tmp_path: Path, cli: Cli, target: str) -> None:
    said = cli("validate", with_target(tmp_path, target))
    assert (said.status, said.err) == (0, "")
    assert os.environ["PATH"] not in said.out


def test_a_reference_to_nothing_is_told_with_its_line(tmp_path: Path, cli: Cli) -> None:
    file = with_target(tmp_path, "postgresql://ana:${env:NO_SUCH_SECRET}@db/books")
    said = cli("validate", file)
    assert said.status == 2
    assert f"{file}:12: outputs.totals.sinks[0].target: the environment has no such variable" in said.err
    assert "fix: set NO_SUCH_SECRET, and start again" in said.err
    # What only reads the store does not ask for it.
    assert "NO_SUCH_SECRET" not in cli("results", file, "totals").err


def test_what_identifies_an_event_is_told_in_words(lake: Lake, cli: Cli) -> None:
    assert "repeated txn_id are duplicates" in cli("validate", lake.file).out
    lake.file.write_text(PIPELINE.replace("id: txn_id", "id: [merchant, shop]").replace("./lake", "./other"))
    outcome = cli("validate", lake.file).out
    assert (
        "events of the same merchant and shop are duplicates; each payer counts its events in shop" in outcome
    )


@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        (
            "id: txn_id",
            "id: [txn_id, shop]",
            'another id (id "txn_id" in the store, id ["txn_id", "shop"] in the file)',
        ),
        ("id: [txn_id, shop]", "id: txn_id", "another id"),
        ("id: [txn_id, shop]", "id: [shop, txn_id]", "another id"),
        ("zone: UTC", "id: [txn_id, shop]", "another id"),
    ],
)
def test_a_store_keeps_its_ids(unrun: Lake, before: str, after: str, outcome: str) -> None:
    """What was a duplicate and what was none has been decided by them."""
    unrun.file.write_text(PIPELINE.replace("id: txn_id", before))
    unrun.store.pin()
    unrun.store.pin()
    unrun.file.write_text(PIPELINE.replace("id: txn_id", after))
    with pytest.raises(StoreMismatch, match=re.escape(outcome)):
        unrun.store.pin()


def test_a_list_of_one_column_is_that_column(lake: Lake) -> None:
    lake.file.write_text(PIPELINE.replace("id: txn_id", "id: [txn_id]"))
    lake.store.pin()
    assert lake.pipeline.event.id == "txn_id"


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


@pytest.mark.parametrize(
    ("written", "field"),
    [
        ("late: update", "outputs.totals.late: never happens"),
        ("late: retract", "outputs.totals.late: never happens"),
        ("late: side_output\n    too_late: drop", "outputs.totals.late: never happens"),
        ("trigger: {late: every 30s}", "outputs.totals.trigger.late: never happens"),
        ("late: retract\n    trigger: {early: 1m}", None),
        ("late: drop", None),
        ("late: side_output", None),
    ],
)
def test_what_never_happens_for_want_of_a_lateness_is_told(
    undeclared: Path, cli: Cli, written: str, field: str | None
) -> None:
    late = "    allowed_lateness: 5m\n    late: update\n"
    text = UNDECLARED.replace(late, f"    {written}\n").replace(", idle_after: 2m", "")
    undeclared.write_text(text, encoding="utf-8")
    said = cli("validate", undeclared)
    assert said.status == 0
    assert said.err.count("never happens") == (field is not None)
    if field is not None:
        assert f"warning: {undeclared}:13: {field}" in said.err
        assert "events that come after their window has closed" in said.err
        assert "fix: write allowed_lateness: 1h" in said.err
    undeclared.write_text(UNDECLARED, encoding="utf-8")
    assert "never happens" not in cli("validate", undeclared).err


def test_a_lateness_that_changes_nothing_is_told(undeclared: Path, cli: Cli) -> None:
    late = "    allowed_lateness: 5m\n    late: update\n"
    undeclared.write_text(UNDECLARED.replace(late, "    allowed_lateness: 5m\n"), encoding="utf-8")
    outcome = cli("validate", undeclared).err
    assert f"warning: {undeclared}:13: outputs.totals.allowed_lateness: changes nothing" in outcome
    assert "late events go to the side output, however late they are" in outcome
    undeclared.write_text(UNDECLARED.replace("late: update", "too_late: drop"), encoding="utf-8")
    assert "changes nothing" not in cli("validate", undeclared).err


def test_a_folder_of_the_source_that_does_not_exist_is_a_warning(undeclared: Path, cli: Cli) -> None:
    said = cli("validate", undeclared)
    assert said.status == 0
    folder = undeclared.parent / "arrivals"
    assert (
        f"warning: source folder {folder} does not exist; create it, or correct source.files.path" in said.err
    )
    folder.mkdir()
    assert "does not exist" not in cli("validate", undeclared).err


def test_a_file_of_the_source_that_cannot_be_read_is_a_warning(
    undeclared: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(undeclared.parent, at="2026-04-25T12:00:00Z", arrived="a", tower="n", merchant="a", paise=1)
    file = undeclared.parent / "arrivals" / "1.json"
    allowed = os.access
    monkeypatch.setattr(
        os, "access", lambda path, *mode, **more: str(path) != str(file) and allowed(path, *mode, **more)
    )
    said = cli("validate", undeclared)
    assert said.status == 0
    assert f"warning: source file {file} cannot be read: permission is denied; give " in said.err
