"""One run at a time: an advisory lock on the store, which the kernel releases even after SIGKILL."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from latecomer.errors import StoreError, StoreInUse

LOCK = ".lock"
BRIEFLY = "compact in process"
"""Who says so lets go soon: a run that starts meanwhile waits."""
PATIENCE_SECONDS = 60.0


@contextmanager
def exclusive(store: Path, name: str = LOCK, holder: str = "process") -> Iterator[None]:
    """Hold the store for one run, or say who holds it."""
    try:
        store.mkdir(parents=True, exist_ok=True)
        handle = open(store / name, "a+", encoding="utf-8")  # noqa: SIM115 - held for the whole run
    except OSError as error:
        raise _not_writable(store, error.strerror) from None
    with handle:
        _take(handle, store, patient=not holder.startswith(BRIEFLY))
        handle.truncate(0)
        handle.write(f"{holder} {os.getpid()}")
        handle.flush()
        yield


def is_writable(store: Path) -> bool:
    """Whether files can be made in the store, which is there."""
    return os.access(store, os.W_OK | os.X_OK)


def require_writable(store: Path) -> None:
    """Refuse what has to write to a store that can only be read."""
    if not is_writable(store):
        raise _not_writable(store, "it can only be read")


def _not_writable(store: Path, reason: str | None) -> StoreError:
    return StoreError(f"store {store} cannot be written: {reason}; check the path and its permissions")


def held_since(store: Path) -> float | None:
    """When the run that holds the store began, in seconds since the epoch; None where none does."""
    try:
        with open(store / LOCK, encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return os.fstat(handle.fileno()).st_mtime
    except OSError:  # never run, or not ours to ask
        pass
    return None


def _take(handle: IO[str], store: Path, patient: bool) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            handle.seek(0)
            by = handle.read().strip() or "another process"
            if not (patient and by.startswith(BRIEFLY) and time.monotonic() < deadline):
                raise StoreInUse(
                    f"store {store} is in use by {by}; wait until it is done, or stop it (kill -INT) first"
                ) from None
        time.sleep(0.05)
