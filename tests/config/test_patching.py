"""Other values in a pipeline file, and nothing else changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from latecomer.config.load import load_pipeline
from latecomer.config.patching import patched, write_patched
from latecomer.errors import PipelineError

REST = """
name: shop   # the shop
store: ./lake
source: {files: {path: in}, schema: {t: timestamp, k: string}}
event: {time: t, partition: k}
"""
OUTPUTS = """outputs:
  # what counts
  totals:
    window: {tumbling: 1m}
    aggregates: {n: count(*)}
    late: update   # corrected
"""
DELAY = ("watermark", "delay")
LATENESS = ("outputs", "totals", "allowed_lateness")


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("watermark: {delay: 30s}   # slow\n", {DELAY: "2m"}, "watermark: {delay: 2m}   # slow\n"),
        ("watermark:\n  delay: '30s'  # slow\n", {DELAY: "2m"}, "watermark:\n  delay: '2m'  # slow\n"),
        ('watermark: {delay: "30s"}\n', {DELAY: "2m"}, 'watermark: {delay: "2m"}\n'),
        (
            "watermark: {delay: 30s}\n",
            {("watermark", "idle_after"): "2m", ("watermark", "max_future"): "1m"},
            "watermark: {delay: 30s, idle_after: 2m, max_future: 1m}\n",
        ),
        (
            "watermark:\n  delay: 30s   # slow\n  # the end\n",
            {("watermark", "idle_after"): "2m"},
            "watermark:\n  delay: 30s   # slow\n  idle_after: 2m\n  # the end\n",
        ),
        (
            "watermark: {delay: 30s}\n",
            {("watermark", "delays", "eu-1"): "5s", ("watermark", "delays", "7"): "9s"},
            'watermark: {delay: 30s, delays: {eu-1: 5s, "7": 9s}}\n',
        ),
    ],
)
def test_only_the_value_changes(before: str, values: dict[tuple[str, ...], str], after: str) -> None:
    assert patched(REST + before + OUTPUTS, values, Path("p.yaml")) == REST + after + OUTPUTS


def test_a_key_that_is_not_there_follows_its_siblings() -> None:
    text = REST + "watermark: {delay: 30s}\n" + OUTPUTS
    assert patched(text, {LATENESS: "10m"}, Path("p.yaml")) == text + "    allowed_lateness: 10m\n"


def test_json_stays_json(tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(
        '{"name": "shop", "store": "lake", "source": {"files": {"path": "in"}}, "event": {"time": "t"},\n'
        ' "watermark": {"delay": "30s"}, "outputs": {"totals": {"window": {"tumbling": "1m"},'
        ' "aggregates": {"n": "count(*)"}, "late": "update"}}}'
    )
    write_patched(file, {DELAY: "1m", LATENESS: "5m"})
    assert '"watermark": {"delay": "1m"}' in file.read_text()
    assert load_pipeline(file).outputs["totals"].allowed_lateness == 300_000_000


def test_the_file_keeps_its_line_ends_and_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes((REST + "watermark: {delay: 30s}\n" + OUTPUTS).replace("\n", "\r\n").encode())
    file.chmod(0o640)
    write_patched(file, {DELAY: "1m"})
    assert file.read_bytes().count(b"\r\n") == file.read_bytes().count(b"\n") > 8
    assert file.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == ["p.yaml"]


def test_what_stands_for_two_values_is_not_changed() -> None:
    text = REST + "watermark: {delay: &d 30s, idle_after: *d}\n" + OUTPUTS
    with pytest.raises(PipelineError, match=r"cannot be changed without changing more.*\n.*write it by hand"):
        patched(text, {DELAY: "1m"}, Path("p.yaml"))


def test_what_is_not_valid_afterwards_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    text = REST + "watermark: {delay: 30s}\n" + OUTPUTS
    file.write_text(text)
    with pytest.raises(PipelineError):
        write_patched(file, {DELAY: "soon"})
    assert file.read_text() == text
