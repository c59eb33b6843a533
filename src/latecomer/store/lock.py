"""One run at a time: an advisory lock on the store, which the kernel releases even after SIGKILL."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from latecomer.errors import StoreError, StoreInUse
from latecomer.errors.system import refusal_of, refused_in_words
from latecomer.store.files import Location, LockFile, is_writable, lock_holder

LOCK = ".lock"
BRIEFLY = "compact in process"
"""Who says so lets go soon: a run that starts meanwhile waits."""
PATIENCE_SECONDS = 60.0
ASKING_SECONDS = 0.3


@contextmanager
def exclusive(store: Location, name: str = LOCK, holder: str = "process") -> Iterator[None]:
    """Hold the store for one run, or say who holds it."""
    try:
        lock = LockFile(store, name, whole=name == LOCK)
    except OSError as error:
        raise _not_writable(store, error) from None
    with closing(lock):
        _take(lock, store, patient=not holder.startswith(BRIEFLY))
        try:
            lock.sign(f"{holder} {os.getpid()}")
        except OSError as error:
            raise _not_writable(store, error) from None
        try:
            yield
        finally:
            with suppress(OSError):  # what went wrong before is the news
                lock.sign("")


def require_writable(store: Location) -> None:
    """Refuse what has to write to a store that can only be read."""
    if not is_writable(store):
        raise _not_writable(store, OSError(errno.EACCES, "it can only be read", str(store)))


def _not_writable(store: Location, error: OSError) -> StoreError:
    refused = refusal_of(error)
    if refused is None:
        return StoreError(
            f"store {store} cannot be written: {error.strerror}; check the path and its permissions"
        )
    return StoreError(f"store {store} cannot be written: {refused_in_words(refused, error.filename)}")


def held_since(store: Location) -> float | None:
    """When the run that holds the store began, in seconds since the epoch; None where none does."""
    found = held(store)
    return None if found is None else found[1]


def held(store: Location) -> tuple[str, float] | None:
    """Who holds the store, and since when. It is asked for and let go at once; who starts meanwhile waits."""
    found = lock_holder(store / LOCK)
    return None if found is None else (found[0] or "another process", found[1])


def _take(lock: LockFile, store: Location, patient: bool) -> None:
    began = time.monotonic()
    while not lock.take():
        by = lock.holder
        waited = time.monotonic() - began
        # Whoever only asks who holds the store has let go by then.
        wait = PATIENCE_SECONDS if patient and by.startswith(BRIEFLY) else ASKING_SECONDS
        if waited > wait:
            raise StoreInUse(
                f"store {store} is in use by {by or 'another process'}; wait until it is done, or stop it "
                "(kill -INT) first"
            )
        time.sleep(0.05)
