"""A pipeline in HDFS or in Azure, with store, source and sinks: it leaves behind what it does in folders (ADR 0087)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import hdfs_native
import pytest

from azure_kit import Container
from faults.faults_kit import left_behind, write_pipeline
from hdfs_kit import Folder
from latecomer.config.load import load_pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.upkeep.compacting import compact
from latecomer.engine.upkeep.copies import snapshot
from latecomer.store import files
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import VARIABLE
from latecomer.store.files import Location
from latecomer.store.holding.lock import lease_of

pytestmark = pytest.mark.long
RUN = "from latecomer.cli import main; main()"


def moved(file: Path, place: Folder | Container) -> Path:
    """The pipeline with store and source in another place, its sinks that are folders there a second time, and a lease
    for some seconds."""
    text, sinks = file.read_text(encoding="utf-8"), place.url / "sinks"
    for each in sorted((file.parent / "in").iterdir()):
        files.replace_bytes(place.url / "in" / each.name, each.read_bytes())
    for before, after in (
        ("store: ./store", f'store: "{place.url}/lake"'),
        ("path: in", f'path: "{place.url}/in"'),
        ("{delta: results}", f'{{delta: results}}, {{delta: "{sinks}/results"}}'),
        (
            "{parquet: changes}",
            f'{{parquet: changes}}, {{jsonl: "{sinks}/alerts"}}, {{parquet: "{sinks}/changes"}}',
        ),
    ):
        assert text.count(before) == 1
        text = text.replace(before, after)
    storage = json.dumps(dict(place.options))
    file.write_text(f"{text}lease: {{takeover: 5s}}\nstorage: {storage}\n", encoding="utf-8")
    return file


def latecomer(file: Path, verb: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a command comes to, in a process of its own."""
    state = {"XDG_STATE_HOME": str(file.parent / "state")}
    return subprocess.run(
        [sys.executable, "-c", RUN, verb, str(file), *more],
        env={**os.environ, **state, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.parametrize("at", ["hdfs_folder", "container"])
def test_a_run_that_is_killed_and_started_again_leaves_what_one_in_folders_does(
    tmp_path: Path, at: str, finished: Path, undisturbed: dict[str, list[str]], request: pytest.FixtureRequest
) -> None:
    place: Folder | Container = request.getfixturevalue(at)
    file = moved(write_pipeline(tmp_path), place)
    killed = latecomer(file, "run", "--drain", **{VARIABLE: "totals.panes.written@1"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    again = latecomer(file, "run", "--drain", "--standby")
    assert again.returncode == 0, again.stderr

    pipeline = load_pipeline(file)
    lease = lease_of(pipeline.store_path)
    assert lease is not None
    assert lease.token == 2
    assert check_ledger(pipeline) == []
    assert not (tmp_path / "store").exists()
    found = {
        name: [row.replace(f"{place.url}/in", "file:///in") for row in rows]
        for name, rows in left_behind(file).items()
    }
    letters, expected = found.pop("dead_letters"), dict(undisturbed)
    assert list(map(without_arrival, letters)) == list(map(without_arrival, expected.pop("dead_letters")))
    assert found == expected

    sinks = place.url / "sinks"
    assert rows_of(sinks / "results") == rows_of(tmp_path / "results")
    assert files.names(sinks / "changes") == files.names(tmp_path / "changes")
    for name in files.names(tmp_path / "alerts"):
        assert files.read_bytes(sinks / "alerts" / name) == files.read_bytes(tmp_path / "alerts" / name)

    printed = [latecomer(each, "results", "totals", "--format", "json").stdout for each in (file, finished)]
    assert len(printed[0]) > 1000
    assert printed[0] == printed[1]

    files.remove_drafts(place.url, time.time() + 60)  # what the killed run was about to write, if anything
    compact(pipeline)
    assert left_behind(file)["totals.panes"] == undisturbed["totals.panes"]
    copied = snapshot(pipeline.store_path, place.url / "copy")
    assert copied.tables > 10
    assert set(files.names(place.url / "lake")) > set(files.names(place.url / "copy")) > {"pipeline.json"}
    if isinstance(place, Folder):
        hidden = {name for name in all_names(place, "lake") if ".~" in name}
        assert hidden == {".~lease.json", ".~compact.lease.json", ".~pipeline.json"}
        assert not {name for name in all_names(place, "copy") if ".~" in name}


def without_arrival(letter: str) -> str:
    """A dead letter of a file arrived when that was written."""
    assert "'arrival_time': " in letter
    return re.sub(r"'arrival_time': .*?\), ", "", letter)


def all_names(place: Folder, name: str) -> set[str]:
    """What a folder in it has directly, with what latecomer shows nobody."""
    found = hdfs_native.Client(f"hdfs://{place.authority}").list_status(f"/{place.name}/{name}")
    return {each.path.rpartition("/")[2] for each in found}


def rows_of(table: Location) -> list[str]:
    return sorted(map(repr, Table(table, None).query("select * from t").to_pylist()))
