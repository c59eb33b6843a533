"""One run at a time, whatever happens to the file that says so."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from latecomer.errors import StoreInUse
from latecomer.store.holding.lock import LOCK, exclusive, holder_of

TRY = """
import sys
from pathlib import Path
from latecomer.errors import StoreInUse
from latecomer.store.holding.lock import exclusive
try:
    with exclusive(Path(sys.argv[1])):
        print("got in")
except StoreInUse as error:
    print(error)
"""


def another(store: Path) -> str:
    command = [sys.executable, "-c", TRY, str(store)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def test_nobody_gets_in_after_the_lock_was_deleted(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        (tmp_path / LOCK).unlink()
        assert "is in use by" in another(tmp_path)
    assert another(tmp_path) == "got in\n"


def test_asking_who_holds_the_store_keeps_nobody_out(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        pass
    stopped = threading.Event()

    def ask() -> None:
        while not stopped.is_set():
            holder_of(tmp_path)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(200):
            with exclusive(tmp_path):
                pass
    finally:
        stopped.set()
        asking.join()


def test_who_has_let_go_is_not_named(tmp_path: Path) -> None:
    with exclusive(tmp_path):
        found = holder_of(tmp_path)
        assert found is not None
        assert found[0].startswith("process ")
        with pytest.raises(StoreInUse, match="in use by process"), exclusive(tmp_path):
            pass
    assert holder_of(tmp_path) is None
    assert (tmp_path / LOCK).read_text() == ""
