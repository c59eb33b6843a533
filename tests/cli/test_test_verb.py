"""`latecomer test`: one's own transcripts against one's own pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.cli_kit import Cli

PIPELINE = """\
name: upi
store: ./lake
source:
  files: {path: arrivals, order_by: seen}
  schema: {at: bigint, seen: bigint, tower: string, paise: bigint, status: string}
event: {time: at, partition: tower, unit: ms}
watermark: {delay: 0s, every: event}
outputs:
  totals:
    window: {tumbling: 1m}
    where: status = 'OK'
    aggregates: {paise: sum(paise)}
    allowed_lateness: 1m
    late: update
    sinks: [{sqlite: results.db}]
"""
TRANSCRIPT = """\
rule: A payment in a closed minute is late.
steps:
  - batch:
      - 14:00:10 @14:00:11 tower=A paise=100 status=OK -> on_time
      - 14:01:00 @14:01:01 tower=A paise=1 status=NO -> filtered
      - 14:00:20 @14:01:02 tower=A paise=7 status=OK -> late_accepted
finally:
  results:
    - 14:00..14:01 paise=107
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "upi.yaml").write_text(PIPELINE, encoding="utf-8")
    (tmp_path / "checks").mkdir()
    (tmp_path / "checks" / "late.yaml").write_text(TRANSCRIPT, encoding="utf-8")
    return tmp_path


def test_a_transcript_that_holds(folder: Path, cli: Cli) -> None:
    said = cli("test", folder / "checks" / "late.yaml", "--pipeline", folder / "upi.yaml")
    assert said.status == 0
    assert said.out.splitlines()[1].split()[:2] == ["late", "pass"]
    assert said.out.endswith("1 of 1 hold\n")
    assert sorted(path.name for path in folder.iterdir()) == ["checks", "upi.yaml"]


def test_a_folder_and_a_pipeline_that_the_transcript_names(folder: Path, cli: Cli) -> None:
    file = folder / "checks" / "late.yaml"
    file.write_text("pipeline: ../upi.yaml\n" + TRANSCRIPT, encoding="utf-8")
    assert cli("test", folder / "checks").status == 0


def test_a_pipeline_of_several_sources(folder: Path, cli: Cli) -> None:
    """Each batch is of one; where it does not say of which, the file is listed with its line."""
    source = "{files: {path: in, order_by: seen}, schema: {at: string, seen: string}}"
    (folder / "shop.yaml").write_text(
        f"name: shop\nstore: lake\nsources: {{app: {source}, pos: {source}}}\nevent: {{time: at}}\n"
        "watermark: {delay: 0s, every: event}\n"
        "outputs: {all: {window: {tumbling: 1m}, aggregates: {n: count(*)}}}\n",
        encoding="utf-8",
    )
    written = (
        "rule: The slower decides.\npipeline: ../shop.yaml\nsteps:\n"
        "  - {batch: [14:05 @14:05], source: app, watermark: none}\n"
        "  - {batch: [14:02 @14:05], source: pos, watermark: 14:02}\n"
    )
    (folder / "checks" / "late.yaml").write_text(written, encoding="utf-8")
    wrong = folder / "checks" / "wrong.yaml"
    wrong.write_text(written.replace(", source: pos", ""), encoding="utf-8")
    assert cli("test", folder / "checks" / "late.yaml").status == 0
    said = cli("test", folder / "checks")
    assert (said.status, f"{wrong}:5: steps[1].batch: of which source?" in said.out) == (2, True)


def test_one_that_does_not_hold_exits_1_and_shows_both_sides(folder: Path, cli: Cli) -> None:
    file = folder / "checks" / "wrong.yaml"
    file.write_text(TRANSCRIPT.replace("paise=107", "paise=108"), encoding="utf-8")
    said = cli("test", folder / "checks", "-p", folder / "upi.yaml")
    assert said.status == 1
    assert f"{file}:8: results in the end" in said.out
    assert "  ≠ 14:00..14:01 paise=108    14:00..14:01 paise=107\n" in said.out
    assert said.out.endswith("1 of 2 hold\n")


def test_a_predicate_that_needs_spark_is_not_passed_over(folder: Path, cli: Cli) -> None:
    (folder / "upi.yaml").write_text(PIPELINE.replace("status = 'OK'", "lower(status) = 'ok'"), "utf-8")
    said = cli("test", folder / "checks", "-p", folder / "upi.yaml")
    assert said.status == 1
    assert "needs --spark" in said.out
    assert "lower" in said.out


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (TRANSCRIPT.replace("tower=A paise=7", "towr=A paise=7"), "did you mean tower?"),
        (TRANSCRIPT.replace("paise=7 ", "paise=seven "), "paise: seven is not of type bigint"),
        (TRANSCRIPT + "watermark: {delay: 1m}\n", "watermark: the pipeline has its own"),
        (TRANSCRIPT.replace("steps:", "stesp:"), "stesp: unknown key"),
        (TRANSCRIPT.replace("  results:", "  results: {other: []}\n  late:"), "unknown key"),
        ("- a\n- b\n", "is not a mapping"),
    ],
)
def test_bad_input_exits_2_with_its_line(folder: Path, cli: Cli, text: str, outcome: str) -> None:
    (folder / "checks" / "late.yaml").write_text(text, encoding="utf-8")
    said = cli("test", folder / "checks", "-p", folder / "upi.yaml")
    assert said.status == 2
    assert f"\n{folder / 'checks' / 'late.yaml'}" in said.out
    assert outcome in said.out
    assert said.out.endswith("0 of 1 hold\n")


def test_one_that_cannot_be_read_stops_none_of_the_others(folder: Path, cli: Cli) -> None:
    wrong = folder / "checks" / "a_wrong_one.yaml"
    wrong.write_text(TRANSCRIPT.replace("steps:", "stesp:"), encoding="utf-8")
    (folder / "checks" / "missing.yaml").symlink_to(folder / "nowhere.yaml")
    said = cli("test", folder / "checks", "-p", folder / "upi.yaml")
    assert said.status == 2
    assert [line.split()[:2] for line in said.out.splitlines()[1:4]] == [
        ["a_wrong_one", "UNREADABLE"],
        ["late", "pass"],
        ["missing", "UNREADABLE"],
    ]
    assert f"{wrong}:2: stesp: unknown key" in said.out
    assert "there is no such file" in said.out
    assert said.out.endswith("1 of 3 hold\n")


def test_files_that_are_not_there(folder: Path, cli: Cli) -> None:
    said = cli("test", folder / "none.yaml")
    assert (said.status, "there is no such file" in said.out) == (2, True)
    (folder / "empty").mkdir()
    said = cli("test", folder / "empty")
    assert (said.status, "holds no transcripts" in said.err) == (2, True)
    assert cli("test", folder / "checks", "-p", folder / "none.yaml").status == 2


def test_without_a_pipeline_a_transcript_needs_its_own(folder: Path, cli: Cli) -> None:
    said = cli("test", folder / "checks" / "late.yaml")
    assert said.status == 2
    assert "outputs: is missing" in said.out
