"""One run at a time: an advisory lock on the store, which the kernel releases even after SIGKILL."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from latecomer.errors import StoreError, StoreInUse


@contextmanager
def exclusive(store: Path) -> Iterator[None]:
    """Hold the store for one run, or say who holds it."""
    try:
        store.mkdir(parents=True, exist_ok=True)
        handle = open(store / ".lock", "a+", encoding="utf-8")  # noqa: SIM115 - held for the whole run
    except OSError as error:
        raise StoreError(
            f"store {store} cannot be written: {error.strerror}; check the path and its permissions"
        ) from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            handle.seek(0)
            holder = handle.read().strip() or "another process"
            raise StoreInUse(
                f"store {store} is in use by {holder}; wait until it is done, or stop it (kill -INT) first"
            ) from None
        handle.truncate(0)
        handle.write(f"process {os.getpid()}")
        handle.flush()
        yield
