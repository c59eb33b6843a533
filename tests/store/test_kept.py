"""A store that is read again and again: what is kept says the same as what is read anew."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from cli.cli_kit import MINUTE, NOON, Lake, pane
from dashboard.dashboard_kit import close, published_store
from latecomer.errors import StoreError, TornCommit
from latecomer.observe import recorded
from latecomer.observe.check import recorded_by
from latecomer.observe.dashboard.answers import Answers, fingerprint
from latecomer.observe.history import DAY
from latecomer.store import cached_store as kept
from latecomer.store import files
from latecomer.store.cached_store import Shelf, SmallTable
from latecomer.store.delta.commits import LOG, commit_file, last_version
from latecomer.store.delta.table import Table, moments
from latecomer.store.layout import PUBLICATIONS
from latecomer.store.store import open_store

ROUTES = ("now", "windows", "ledger")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return published_store(tmp_path / "told")


def said(answers: Answers) -> dict[str, bytes]:
    return {route: answers.answer(0, route, "").body for route in ROUTES}


def goes_on(lake: Lake, batch: int) -> None:
    """One batch more, with a correction."""
    lake.watermarks(batch, [{"tick": batch, "at": NOON + batch * MINUTE, "watermark": NOON + MINUTE}])
    late = pane(0, batch, timing="LATE", paise=30, merchant="amul", payments=4)
    lake.panes("minute_totals", batch, [late])
    close(lake, batch, NOON + (2 + batch) * MINUTE, on_time=1, late_accepted=1)


def published(first: int, last: int) -> pa.Table:
    batches = list(range(first, last + 1))
    at = moments([NOON + batch for batch in batches])
    return pa.table({"batch": batches, "output": pa.nulls(len(batches), pa.string()), "published_at": at})


def test_what_is_kept_says_the_same_as_what_is_read_anew(lake: Lake) -> None:
    keeping = Answers([lake.pipeline], clock=lambda: 0.0)
    before = said(keeping)
    assert before == said(Answers([lake.pipeline]))
    for batch in (3, 4):
        goes_on(lake, batch)
        now = said(keeping)
        assert now == said(Answers([lake.pipeline]))
        assert all(now[route] != before[route] for route in ROUTES)
        before = now


def test_what_was_read_is_not_read_again(lake: Lake) -> None:
    keeping = Answers([lake.pipeline])
    said(keeping)
    goes_on(lake, 3)
    for table in ("ledger", "publications"):  # gone from the disk: whoever reads them anew fails
        for file in sorted((lake.store.root / table / "data").glob("0000000000-*/*.parquet")):
            file.unlink()
    assert b'"batch":3' in said(keeping)["ledger"]
    with pytest.raises(Exception, match="ledger"):
        said(Answers([lake.pipeline]))


def test_a_store_in_the_place_of_another_is_another(lake: Lake, tmp_path: Path) -> None:
    shelf = Shelf()
    assert shelf.store(lake.pipeline).ledger.last_batch() == 2
    other = published_store(tmp_path / "other")
    goes_on(other, 3)
    shutil.rmtree(lake.store.root)
    shutil.copytree(other.store.root, lake.store.root)
    store = shelf.store(lake.pipeline)
    rows = store.ledger.query("select max(batch) as last, count(*) as lines from t").to_pylist()
    assert (
        rows
        == open_store(lake.pipeline)
        .ledger.query("select max(batch) as last, count(*) as lines from t")
        .to_pylist()
    )


def test_a_torn_commit_is_told(lake: Lake) -> None:
    shelf = Shelf()
    shelf.store(lake.pipeline).ledger.query("select 1 from t")
    goes_on(lake, 3)
    root = lake.store.ledger.root
    Path(commit_file(root, last_version(root))).write_bytes(b"")
    with pytest.raises(TornCommit):
        shelf.store(lake.pipeline).ledger.last_batch()


def test_the_scratch_folder_is_for_its_user_alone_and_goes() -> None:
    shelf = Shelf()
    folder = Path(shelf._scratch.folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    del shelf
    assert not folder.exists()


def test_a_copy_that_could_not_be_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Table(tmp_path / "t", PUBLICATIONS)
    small = SmallTable(tmp_path / "t", PUBLICATIONS, tmp_path / "scratch")
    asked = "select batch, published_at from t order by batch"
    plain.append(0, published(0, 0))
    assert small.query(asked) == plain.query(asked)
    plain.append(1, published(1, 1))
    with monkeypatch.context() as full:
        full.setattr(kept, "write_delta", _on_a_full_disk)
        with pytest.raises(StoreError):
            small.query(asked)
    assert small.query(asked) == plain.query(asked)
    plain.append(2, published(2, 2))
    assert small.query(asked) == plain.query(asked)


def _on_a_full_disk(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_small_table_follows_its_files(tmp_path: Path) -> None:
    plain = Table(tmp_path / "t", PUBLICATIONS)
    small = SmallTable(tmp_path / "t", PUBLICATIONS, tmp_path / "scratch")
    assert not small.exists
    for batch in range(3):
        plain.append(batch, published(batch, batch))
    asked = "select batch, published_at from t order by batch"
    assert small.query(asked) == plain.query(asked)
    plain.append(3, published(3, 5))
    assert small.query(asked) == plain.query(asked)
    assert len(list((tmp_path / "scratch").iterdir())) == 1
    merged = files.write_table(
        plain.query("select * from t").cast(PUBLICATIONS), plain.merged_folder(0, 3, "m") / "a.parquet"
    )
    plain.rearrange([merged], plain.files())
    assert small.query(asked).num_rows == 6
    assert small.query("select t.batch from t join p on t.batch = p.batch", p=plain).num_rows == 6


def test_a_table_that_is_not_small_is_asked_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_ROWS", 3)
    small = SmallTable(tmp_path / "t", PUBLICATIONS, tmp_path / "scratch")
    small.append(0, published(0, 2))
    assert small.query("select * from t").num_rows == 3
    small.append(1, published(3, 3))
    assert small.query("select * from t").num_rows == 4
    assert small.queried()[0].table_uri.rstrip("/").endswith("/t")


def test_a_small_table_of_an_earlier_version_has_nulls(tmp_path: Path) -> None:
    earlier = Table(
        tmp_path / "t", pa.schema([PUBLICATIONS.field("batch"), PUBLICATIONS.field("published_at")])
    )
    earlier.append(0, published(0, 0).drop_columns(["output"]))
    small = SmallTable(tmp_path / "t", PUBLICATIONS, tmp_path / "scratch")
    assert small.query("select output, batch from t where output is null").to_pylist() == [
        {"output": None, "batch": 0}
    ]


def test_corrections_that_are_remembered_are_those_of_the_table(lake: Lake) -> None:
    def corrections(store: object) -> list[int]:
        history = recorded_by(store, NOON + 10 * MINUTE, 2 * DAY).history  # type: ignore[arg-type]
        total = history.total("minute_totals", NOON - DAY, NOON + 10 * MINUTE)
        return [total.late_panes, total.rebuilt]

    store = open_store(lake.pipeline)
    assert corrections(store) == [1, 1]
    goes_on(lake, 3)
    store.ledger.refresh()
    assert corrections(store) == corrections(open_store(lake.pipeline)) == [2, 1]
    panes = lake.tables("minute_totals").panes
    panes.rearrange([], [file for file in panes.files() if "/0000000002-" in file.path])
    assert corrections(store) == corrections(open_store(lake.pipeline)) == [2, 0]


def test_the_lag_of_a_day_is_the_mean_of_its_batches(lake: Lake) -> None:
    goes_on(lake, 3)
    found = recorded.daily_lag(open_store(lake.pipeline), NOON - DAY)
    # Published 2 to 5 minutes after noon, with watermarks 1 before, 1m35s, 2 and 1 after it.
    assert found == {NOON // DAY: pytest.approx((180 + 85 + 120 + 240) / 4)}


def test_a_table_with_a_checkpoint_is_seen_to_change(lake: Lake) -> None:
    for table in ("ledger", "publications", "watermarks"):
        (lake.store.root / table / LOG / "_last_checkpoint").write_text('{"version": 0}')
    before = fingerprint(lake.pipeline)
    lake.ledger(3, [{"output": "minute_totals", "received": Decimal(1), "on_time": Decimal(1)}])
    assert fingerprint(lake.pipeline) != before
