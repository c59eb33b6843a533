"""Certificates: what is hashed, and what is not. No Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from after.reconcile.reconcile_kit import lake_in, row
from cli.cli_kit import MINUTE, NOON, Lake, at, pane
from latecomer.after.certify.certificate import certify, check, read_certificate
from latecomer.errors import NoStore, PipelineError, StoreError, StoreMismatch


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return closed_at(lake_in(tmp_path), 10)


def closed_at(lake: Lake, minute: int) -> Lake:
    """The watermark stands so many minutes after noon, and one batch is complete."""
    lake.watermarks(0, [{"tick": 1, "at": NOON + 20 * MINUTE, "watermark": NOON + minute * MINUTE}])
    lake.ledger(0, [{"output": "totals"}])
    return lake


def test_the_hash_does_not_depend_on_how_rows_were_written(lake: Lake, tmp_path: Path) -> None:
    rows = [row(0, "amul", 10), row(0, None, 5), row(1, "bata", 7)]
    lake.panes("totals", 0, rows)
    (tmp_path / "other").mkdir()
    other = closed_at(lake_in(tmp_path / "other"), 10)
    other.panes("totals", 0, rows[::-1])
    assert certify(other.pipeline, "totals") == certify(lake.pipeline, "totals")


def test_every_certified_value_changes_the_hash(tmp_path: Path) -> None:
    outcome = row(0, "amul", 10)
    changes = [{}, {"merchant": "bata"}, {"merchant": None}, {"paise": 11}, {"paise": None}, {"payments": 2}]
    hashes = set()
    for nth, change in enumerate(changes):
        (tmp_path / str(nth)).mkdir()
        lake = closed_at(lake_in(tmp_path / str(nth)), 10)
        lake.panes("totals", 0, [{**outcome, **change}])
        hashes.add(certify(lake.pipeline, "totals").sha256)
    assert len(hashes) == len(changes)


def test_only_windows_closed_at_the_watermark_are_certified(lake: Lake) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10), row(1, "amul", 7), row(2, "amul", 8)])
    whole = certify(lake.pipeline, "totals")
    assert (whole.watermark, whole.rows, whole.batches) == ("2026-04-25T12:10:00Z", 3, 1)
    assert certify(lake.pipeline, "totals", at(2)).rows == 2
    assert certify(lake.pipeline, "totals", at(1, 59)).rows == 1
    with pytest.raises(PipelineError, match="is after the watermark"):
        certify(lake.pipeline, "totals", at(11))


def test_sums_of_floating_point_are_left_out_and_said_so(lake: Lake) -> None:
    lake.panes("kinds", 0, [pane(0, 0, merchant="amul", shop=1, paise=1, km=0.1, first="amul")])
    certificate = certify(lake.pipeline, "kinds")
    assert list(certificate.columns) == [
        "window_start", "window_end", "merchant", "shop", "paise", "fee", "first", "latest",
    ]  # fmt: skip
    assert certificate.excluded == {"km": "floating point: the sum depends on the order of events"}
    assert certificate.definition["aggregates"]["km"] == "sum(km)"


def test_a_batch_under_way_cannot_be_certified(lake: Lake) -> None:
    lake.panes("totals", 1, [row(0, "amul", 10)])
    with pytest.raises(StoreError, match="is under way, or was interrupted"):
        certify(lake.pipeline, "totals")


def test_without_a_watermark_nothing_has_closed(tmp_path: Path) -> None:
    with pytest.raises(NoStore, match="has no watermark yet"):
        certify(lake_in(tmp_path).pipeline, "totals")


def test_a_certificate_is_read_as_it_was_written(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    certificate = certify(lake.pipeline, "totals")
    file = tmp_path / "cert.json"
    file.write_text(certificate.written())
    assert read_certificate(file) == certificate


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"format": 2}, "format: is not a certificate of a known format (value: 2)"),
        ({"rows": "3"}, "rows: is missing or of another type (value: '3')"),
        ({"sha256": None}, "sha256: is missing"),
        ({"watermark": "noon"}, "watermark: is not a moment (value: 'noon')"),
        ({"output": "sessions"}, "output: is not the one asked for (totals) (value: 'sessions')"),
        ({"pipeline": "other"}, "pipeline: is not the one asked for (upi)"),
        ({"definition": {}}, "says another window and another by and another where and other aggregates"),
    ],
)
def test_a_certificate_that_does_not_fit_is_refused(
    lake: Lake, tmp_path: Path, change: dict[str, object], outcome: str
) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    written = json.loads(certify(lake.pipeline, "totals").written())
    file = tmp_path / "cert.json"
    file.write_text(json.dumps({**written, **change}))
    with pytest.raises(PipelineError) as refused:
        check(lake.pipeline, "totals", read_certificate(file))
    assert outcome in str(refused.value)


def test_a_certificate_of_a_longer_store_is_refused(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    written = json.loads(certify(lake.pipeline, "totals").written())
    file = tmp_path / "cert.json"
    file.write_text(json.dumps({**written, "batches": 5}))
    with pytest.raises(StoreMismatch, match="speaks of 5 batches"):
        check(lake.pipeline, "totals", read_certificate(file))


def test_files_that_are_no_certificates(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read: No such file"):
        read_certificate(tmp_path / "gone.json")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(PipelineError, match="is not JSON"):
        read_certificate(tmp_path / "text")
    (tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(PipelineError, match="is not JSON"):
        read_certificate(tmp_path / "deep")
    (tmp_path / "list").write_text("[1]")
    with pytest.raises(PipelineError, match="is not a certificate"):
        read_certificate(tmp_path / "list")
