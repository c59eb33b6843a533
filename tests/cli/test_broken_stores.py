"""What can be wrong with a store, a source or a machine is said in one sentence: it is no bug in latecomer."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from cli.cli_kit import ON_SPARK, VERBS, Cli, Lake, words
from latecomer.errors import StoreError
from latecomer.store.recovery import require_unbroken


def tables(lake: Lake) -> list[Path]:
    return sorted(log.parent for log in lake.store.root.rglob("_delta_log"))


def no_store(lake: Lake) -> None:
    shutil.rmtree(lake.store.root)


def empty_store(lake: Lake) -> None:
    no_store(lake)
    lake.store.root.mkdir()


def store_is_a_file(lake: Lake) -> None:
    no_store(lake)
    lake.store.root.write_text("not a folder")


def pins_are_cut(lake: Lake) -> None:
    pins = lake.store.root / "pipeline.json"
    pins.write_text(pins.read_text()[:40])


def pins_are_something_else(lake: Lake) -> None:
    (lake.store.root / "pipeline.json").write_text("[1, 2]")


def pins_lack_everything(lake: Lake) -> None:
    (lake.store.root / "pipeline.json").write_text('{"format": 1}')


def pins_are_a_folder(lake: Lake) -> None:
    (lake.store.root / "pipeline.json").unlink()
    (lake.store.root / "pipeline.json").mkdir()


def tables_are_gone(lake: Lake) -> None:
    for table in tables(lake):
        shutil.rmtree(table)


def tables_are_files(lake: Lake) -> None:
    for table in tables(lake):
        shutil.rmtree(table)
        table.write_text("not a table")


def logs_are_damaged(lake: Lake) -> None:
    for table in tables(lake):
        max(table.glob("_delta_log/*.json")).write_text("not json")


def logs_have_a_gap(lake: Lake) -> None:
    for table in tables(lake):
        min(table.glob("_delta_log/*.json")).unlink()


def logs_are_empty(lake: Lake) -> None:
    for table in tables(lake):
        for log in table.glob("_delta_log/*.json"):
            log.write_text("")


def files_are_gone(lake: Lake) -> None:
    for file in lake.store.root.rglob("*.parquet"):
        file.unlink()


def files_are_damaged(lake: Lake) -> None:
    for file in lake.store.root.rglob("*.parquet"):
        file.write_bytes(b"PAR1 and no more")


def a_plan_is_damaged(lake: Lake) -> None:
    plan = lake.store.root / "outputs" / "minute_totals" / "rebuilds" / "0123456789ab"
    plan.mkdir(parents=True)
    (plan / "record.json").write_text('{"output": "minute')


WHOLE_STORE = [no_store, store_is_a_file, pins_are_cut, pins_are_something_else, pins_lack_everything]
DAMAGES: list[Callable[[Lake], None]] = [
    *WHOLE_STORE,
    empty_store,
    pins_are_a_folder,
    tables_are_gone,
    tables_are_files,
    logs_are_damaged,
    logs_have_a_gap,
    logs_are_empty,
    files_are_gone,
    files_are_damaged,
    a_plan_is_damaged,
]


SOON = (store_is_a_file, pins_are_cut, tables_are_gone, logs_are_damaged, files_are_damaged)


@pytest.mark.parametrize(
    "damage",
    [pytest.param(each, marks=[pytest.mark.long] * (each not in SOON), id=each.__name__) for each in DAMAGES],
)
def test_a_broken_store_is_told_in_one_sentence(
    damage: Callable[[Lake], None], filled: Lake, cli: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    wrong = []
    for name, verb in VERBS.items():
        copy = tmp_path_factory.mktemp(name) / "copy"
        shutil.copytree(filled.file.parent, copy)
        lake = Lake(copy / filled.file.name)
        damage(lake)
        said = cli(*words(lake, verb))
        errors = [line for line in said.err.splitlines() if not line.startswith(("note:", "    "))]
        if said.status not in (0, 1, 2) or said.err.startswith("unexpected:") or len(errors) > 1:
            wrong.append((name, said.status, said.err))
    assert not wrong


@pytest.mark.parametrize("damage", [*WHOLE_STORE[1:], logs_are_damaged], ids=lambda damage: damage.__name__)
def test_on_spark_too_and_before_it_starts(damage: Callable[[Lake], None], filled: Lake, cli: Cli) -> None:
    damage(filled)
    for name, verb in ON_SPARK.items():
        said = cli(*words(filled, verb))
        assert (said.status, said.err.count("\n")) == (1, 1), (name, said.err)
        assert said.err.startswith("error: ")


TORN: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "cut off": lambda whole: whole[: len(whole) // 2],
    "without its last line": lambda whole: whole[: whole.rindex(b"\n")],
    "full of zeros": lambda whole: b"\0" * len(whole),
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_checking_the_ledger_names_a_torn_commit_of_any_table(
    torn: Callable[[bytes], bytes], filled: Lake, cli: Cli
) -> None:
    """Before Spark starts, and with what to do: an emptied commit would pass for one in which nothing happened."""
    events = filled.store.events
    events.append(1, pa.Table.from_pylist([{"batch": 1}], events.schema))
    checked = 0
    for table in tables(filled):
        newest = max(table.glob("_delta_log/*.json"))
        whole = newest.read_bytes()
        newest.write_bytes(torn(whole))
        said = cli("ledger", str(filled.file), "--check")
        assert (said.status, said.err.count("\n")) == (1, 1), (table, said.err)
        assert f"table {table}: commit {newest.name} is incomplete" in said.err
        assert "run the pipeline (latecomer run FILE), which sets it aside" in said.err
        newest.write_bytes(whole)
        checked += 1
    assert checked > 5


def test_checking_the_ledger_names_a_torn_commit_that_others_rest_on(filled: Lake, cli: Cli) -> None:
    filled.ledger(1, [{"output": "minute_totals", "unit": "events"}])
    older = sorted((filled.store.root / "ledger").glob("_delta_log/*.json"))[-2]
    older.write_bytes(b"")
    said = cli("ledger", str(filled.file), "--check")
    assert (said.status, said.err.count("\n")) == (1, 1)
    assert f"commit {older.name} is incomplete" in said.err
    assert "later commits rest on it: restore the store from a backup" in said.err


def test_a_store_that_is_missing_is_told_before_spark_starts(filled: Lake, cli: Cli) -> None:
    no_store(filled)
    for name, verb in ON_SPARK.items():
        if name != "run":
            said = cli(*words(filled, verb))
            assert (said.status, "run the pipeline first" in said.err) == (1, True), (name, said.err)


LOOP = """
import json, sys
from latecomer.cli import main
for words in json.loads(sys.argv[1]):
    print("===", " ".join(words), flush=True)
    try:
        main(["--quiet", *words])
    except SystemExit as ended:
        print("status", ended.code, flush=True)
"""


def asked(lake: Lake, verbs: dict[str, list[str]], **environment: str) -> dict[str, tuple[int, str]]:
    """The verbs in a process whose permissions bind, even if it is root's: its status and what it printed."""
    command = [sys.executable, "-c", LOOP, json.dumps([words(lake, verb) for verb in verbs.values()])]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and there is no setpriv to change that")
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *command]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **environment},
    )
    parts = [part.partition("\n")[2] for part in done.stdout.split("=== ")[1:]]
    assert len(parts) == len(verbs), done.stdout
    return {
        name: (int(part.rpartition("status ")[2]), part.rpartition("status ")[0])
        for name, part in zip(verbs, parts, strict=True)
    }


@pytest.fixture
def read_only(filled: Lake) -> Iterator[Lake]:
    folders = [filled.store.root, *(path for path in filled.store.root.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o555)
    yield filled
    for folder in folders:
        folder.chmod(0o755)


def test_reading_needs_no_permission_to_write(read_only: Lake, cli: Cli) -> None:
    reading = {name: verb for name, verb in VERBS.items() if name not in ("compact", "doctor")}
    for name, (status, said) in asked(read_only, reading).items():
        expected = cli(*words(read_only, reading[name]))
        lines = sorted((expected.err + expected.out).splitlines())
        assert (status, sorted(said.splitlines())) == (expected.status, lines), name


def test_writing_to_a_store_that_can_only_be_read_is_told_in_one_sentence(read_only: Lake) -> None:
    writing = {name: {**VERBS, **ON_SPARK}[name] for name in ("compact", "run", "apply")}
    for name, (status, said) in asked(read_only, writing).items():
        assert (status, said.count("\n")) == (1, 1), (name, said)
        assert "cannot be written" in said


def test_without_a_home_and_a_folder_for_temporary_files(filled: Lake) -> None:
    nowhere = {"TMPDIR": "/proc/nowhere", "HOME": "/proc/nowhere"}
    for name, (status, said) in asked(filled, VERBS, **nowhere).items():
        assert status in (0, 1, 2), (name, said)
        assert not said.startswith("unexpected"), (name, said)


def test_a_ledger_that_lacks_a_batch_of_the_timeline_is_refused(lake: Lake) -> None:
    """A copy made while a run went on: the batch between would never be completed."""
    lake.ledger(0, [])
    for batch in range(3):
        lake.watermarks(batch, [{"tick": batch, "at": 0, "watermark": 0, "kind": "heartbeat"}])
        if batch == 1:  # the batch under way when a run was killed
            require_unbroken(lake.store)
    with pytest.raises(StoreError, match="batch 1 is in the timeline and not in the ledger"):
        require_unbroken(lake.store)
