"""One run at a time: an advisory lock on the store, which the kernel releases even after SIGKILL."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from latecomer.errors import StoreError, StoreInUse
from latecomer.errors.system import refusal_of, told
from latecomer.store.durable import make_folder

LOCK = ".lock"
BRIEFLY = "compact in process"
"""Who says so lets go soon: a run that starts meanwhile waits."""
PATIENCE_SECONDS = 60.0
ASKING_SECONDS = 0.3


@contextmanager
def exclusive(store: Path, name: str = LOCK, holder: str = "process") -> Iterator[None]:
    """Hold the store for one run, or say who holds it.

    The folder itself is locked beside the file that names the holder: that file can be deleted, and another
    process would then lock a new one.
    """
    try:
        make_folder(store)
        handle = open(store / name, "a+", encoding="utf-8")  # noqa: SIM115 - held for the whole run
        folder = os.open(store, os.O_RDONLY) if name == LOCK else None
    except OSError as error:
        raise _not_writable(store, error) from None
    with handle:
        try:
            for lock in (folder, handle.fileno()):
                if lock is not None:
                    _take(lock, handle, store, patient=not holder.startswith(BRIEFLY))
            try:
                os.ftruncate(handle.fileno(), 0)
                os.write(handle.fileno(), f"{holder} {os.getpid()}".encode())
            except OSError as error:
                raise _not_writable(store, error) from None
            try:
                yield
            finally:
                with suppress(OSError):  # what went wrong before is the news
                    os.ftruncate(handle.fileno(), 0)
        finally:
            if folder is not None:
                os.close(folder)


def is_writable(store: Path) -> bool:
    """Whether files can be made in the store, which is there."""
    return os.access(store, os.W_OK | os.X_OK)


def require_writable(store: Path) -> None:
    """Refuse what has to write to a store that can only be read."""
    if not is_writable(store):
        raise _not_writable(store, OSError(errno.EACCES, "it can only be read", str(store)))


def _not_writable(store: Path, error: OSError) -> StoreError:
    refused = refusal_of(error)
    if refused is None:
        return StoreError(
            f"store {store} cannot be written: {error.strerror}; check the path and its permissions"
        )
    return StoreError(f"store {store} cannot be written: {told(refused, error.filename)}")


def held_since(store: Path) -> float | None:
    """When the run that holds the store began, in seconds since the epoch; None where none does."""
    found = held(store)
    return None if found is None else found[1]


def held(store: Path) -> tuple[str, float] | None:
    """Who holds the store, and since when. It is asked for and let go at once; who starts meanwhile waits."""
    try:
        with open(store / LOCK, encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return handle.read().strip() or "another process", os.fstat(handle.fileno()).st_mtime
    except OSError:  # never run, or not ours to ask
        pass
    return None


def _take(lock: int, handle: IO[str], store: Path, patient: bool) -> None:
    began = time.monotonic()
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            handle.seek(0)
            by = handle.read().strip()
        waited = time.monotonic() - began
        # Whoever only asks who holds the store has let go by then.
        wait = PATIENCE_SECONDS if patient and by.startswith(BRIEFLY) else ASKING_SECONDS
        if waited > wait:
            raise StoreInUse(
                f"store {store} is in use by {by or 'another process'}; wait until it is done, or stop it "
                "(kill -INT) first"
            )
        time.sleep(0.05)
