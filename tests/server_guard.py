"""No server that tests start outlives them, however they end.

Every test process that uses a server holds a shared lock on a file of the server's. A small process beside the server
watches: when it gets the lock for itself, nobody is left, and it ends the server. The operating system lets go of
a lock when its holder dies, so this goes for a killed test run, too.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import psutil

_STARTED: list[subprocess.Popen[bytes]] = []
"""Servers and guards: Python warns of processes that are forgotten while they run."""


def hold(lock: Path) -> None:
    """Use a server: hold its lock until the process ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    handle = open(lock, "a")  # noqa: SIM115
    fcntl.flock(handle, fcntl.LOCK_SH)
    atexit.register(handle.close)


def guard(server: subprocess.Popen[bytes], lock: Path, data: Path) -> None:
    """Have a server ended, and its data deleted, once nobody holds the lock. The caller does hold it."""
    command = [sys.executable, __file__, str(server.pid), str(lock), str(data)]
    nowhere = subprocess.DEVNULL
    watching = subprocess.Popen(
        command, stdin=nowhere, stdout=nowhere, stderr=nowhere, start_new_session=True
    )
    _STARTED.extend((server, watching))


def shared(
    folder: Path,
    start: Callable[[Path], tuple[subprocess.Popen[bytes], str]],
    await_answer: Callable[[str, subprocess.Popen[bytes]], None],
) -> str:
    """The address of a server that the processes of a test run share: the first that asks starts it in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    place, lock = folder / "server.json", folder / "users.lock"
    with open(folder / "starting.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        hold(lock)
        if place.exists():
            known = json.loads(place.read_text())
            if psutil.pid_exists(known["pid"]):
                return str(known["address"])
        process, address = start(folder)
        guard(process, lock, folder / "data")
        await_answer(address, process)
        place.write_text(json.dumps({"pid": process.pid, "address": address}))
        return address


def watch(pid: int, lock: Path, data: Path) -> None:
    """Wait until the server has ended or nobody holds the lock: then end it."""
    try:
        server = psutil.Process(pid)
        with open(lock, "a") as handle:
            while server.status() != psutil.STATUS_ZOMBIE:
                if _mine(handle):
                    server.kill()
                    server.wait(10)
                    shutil.rmtree(data, ignore_errors=True)
                    return
                time.sleep(0.2)
    except psutil.NoSuchProcess:
        return


def _mine(handle: TextIO) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    watch(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))
