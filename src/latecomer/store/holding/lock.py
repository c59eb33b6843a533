"""One engine at a time: whoever changes a store holds it by this module.

A folder has an advisory lock, which the kernel releases even after SIGKILL. A store at a URL has a lease, and so has a
folder whose pipeline file asks for one (`lease.py`).
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial

from latecomer.errors import StoreError, StoreInUse
from latecomer.errors.system import refusal_of, refused_in_words
from latecomer.store import files
from latecomer.store.delta.commits import LEASE, is_table, tables_in
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, LockFile, is_url, is_writable, lock_holder, make_folder
from latecomer.store.holding.fences import Fence, in_force
from latecomer.store.holding.lease import (
    Heart,
    Holder,
    Lease,
    LeaseClock,
    LeaseFile,
    LeaseRecord,
    Watcher,
    read_lease,
)
from latecomer.store.pins import PINS
from latecomer.store.source_turns import AWAY, SOURCES, TURN

LOG = logging.getLogger(__name__)
LOCK = ".lock"
"""Locks the whole store."""
COMPACT = ".compact.lock"
"""Locks the upkeep beside a run: one at a time."""
TABLE = ".table.lock"
"""Locks a table that is filled beside a run."""
BRIEFLY = "compact in process"
"""The beginning of the name of a holder that releases the lock soon: a run that starts meanwhile waits."""
PATIENCE_SECONDS = 60.0
ASKING_SECONDS = 0.3
_REWRITTEN = (PINS, f"{SOURCES}/{TURN}", f"{SOURCES}/{AWAY}")
"""Small files that an engine rewrites."""
_LEVELS = 3
"""How deep a table with its own lock is in its store: outputs/NAME/corrections."""
_AT_ONCE = 8
"""How many tables are fenced at the same time: on an object store, each takes a while."""


@contextmanager
def exclusive(
    store: Location,
    name: str = LOCK,
    holder: str = "process",
    *,
    takeover: float | None = None,
    standby: threading.Event | None = None,
    mend: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """Hold the store for one run; `StoreInUse` names another holder.

    A store at a URL has a lease. So has a folder once a run has given the seconds until `takeover`; any other folder
    has a lock of the kernel. With `standby`, this waits for the store until that event is set. `mend` is called before
    tables are read.
    """
    if takeover is None and not is_leased(store, name):
        with _locked(store, name, holder, standby):
            if not is_leased(store, name):  # another run may have begun with a lease meanwhile
                mend()
                yield
                return
    with _leased(store, name, Holder(holder, takeover), standby, mend):
        yield


@contextmanager
def _leased(
    store: Location,
    name: str,
    holder: Holder,
    standby: threading.Event | None,
    mend: Callable[[], object],
) -> Iterator[None]:
    place = LeaseFile(lease_file(store, name))
    watcher = Watcher(place, holder, LeaseClock(), partial(_first_token, store, name))
    lease = _first_lease(store, name, watcher, standby, mend) or _await_lease(store, watcher, standby)
    heart = Heart(lease)
    try:
        mend()
        fence = Fence(store, APPLICATIONS[name], lease, around_files=name == LOCK)
        raise_fence(fence, name)
        with in_force(fence):
            try:
                yield
            except Exception as error:
                if _is_lost(fence, error):
                    raise fence.refusal() from error
                raise
    finally:
        heart.stop()
        with suppress(
            OSError, StoreError
        ):  # the first error is the one to report; the next engine waits a little
            lease.let_go()


def _is_lost(fence: Fence, error: Exception) -> bool:
    """Whether an engine has failed because another one has taken over, whatever the error."""
    with suppress(OSError, StoreError):
        return not isinstance(error, StoreInUse) and not fence.lease.confirm()
    return False


def _first_lease(
    store: Location,
    name: str,
    watcher: Watcher,
    standby: threading.Event | None,
    mend: Callable[[], object],
) -> Lease | None:
    """The first lease in a folder. It is taken under the kernel's lock, which runs without a lease hold."""
    if is_url(store) or files.exists(lease_file(store, name)):
        return None
    try:
        with _locked(store, name, watcher.holder.name, standby):
            mend()  # the first token is one above those in the tables
            return watcher.look()
    except StoreInUse:
        raise
    except StoreError:  # some shared folders have no such locks
        make_folder(store)
        return None


def _await_lease(store: Location, watcher: Watcher, standby: threading.Event | None) -> Lease:
    """The lease, as soon as it is free. Without `standby` it is refused once its holder renews it."""
    stopped, began = standby or threading.Event(), watcher.clock.now()
    while True:
        try:
            if (lease := watcher.look()) is not None:
                return lease
        except OSError as error:
            if standby is None:
                raise _not_writable(store, error) from None
            LOG.info("standing by for store %s, which cannot be reached (%s)", store, error)
        other = watcher.found
        is_brief = other is not None and other.holder.startswith(BRIEFLY)
        patience = PATIENCE_SECONDS if is_brief and not watcher.holder.name.startswith(BRIEFLY) else 0.0
        if other is not None and standby is None and watcher.signs:
            if watcher.clock.now() - began >= patience:
                raise _in_use(store, other.in_words)
        elif other is not None:
            what = "standing by for" if standby else "asking for a sign of life of who has"
            LOG.info("%s store %s: %s (token %d)", what, store, other.in_words, other.token)
        if watcher.clock.wait(stopped, watcher.pause):
            raise _never_held(store)


def _first_token(store: Location, name: str) -> int:
    """A token above those in the tables of a store without a lease: it may be a copy, or its lease was removed."""
    tokens = [Table(root, None).last_batch(APPLICATIONS[name]) for root in _fenced_tables(store, name)]
    return max([0, *tokens]) + 1


def _fenced_tables(store: Location, name: str) -> list[Location]:
    """The tables that a lease protects."""
    return [store] * is_table(store) if name == TABLE else tables_in(store)


def raise_fence(fence: Fence, name: str) -> None:
    """Have the tables and small files of a store refuse the engine that had the lease before."""
    tables = [Table(root, None) for root in _fenced_tables(fence.root, name) if fence.covers(root)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda table: table.fence_off(fence), tables))
    fence.confirm()
    for file in _REWRITTEN if fence.around_files else ():
        fence.adopt(fence.root / file)


@contextmanager
def _locked(
    store: Location, name: str, holder: str, standby: threading.Event | None = None
) -> Iterator[None]:
    """Hold the kernel's lock."""
    try:
        lock = LockFile(store, name, whole=name != COMPACT)
    except OSError as error:
        raise _not_writable(store, error) from None
    with closing(lock):
        _take(lock, store, not holder.startswith(BRIEFLY), standby)
        try:
            lock.sign(f"{holder} {os.getpid()}")
        except OSError as error:
            raise _not_writable(store, error) from None
        try:
            yield
        finally:
            with suppress(OSError):  # the first error is the one to report
                lock.sign("")


APPLICATIONS = {LOCK: LEASE, COMPACT: f"{LEASE}-compact", TABLE: f"{LEASE}-table"}
"""The transaction with the token of each lease: a table has several."""
_NAMES = {LOCK: "lease", COMPACT: "compact.lease", TABLE: "table.lease"}
OF_ONE_STORE = frozenset({*_NAMES, *_NAMES.values(), *(f"{name}.json" for name in _NAMES.values())})
"""The files of locks and leases in a store: a copy of the store must not have them."""


def lease_file(store: Location, name: str = LOCK) -> Location:
    """The file or folder that names the holder of a lease."""
    return store / (f"{_NAMES[name]}.json" if is_url(store) else _NAMES[name])


def is_leased(store: Location, name: str = LOCK) -> bool:
    """Whether a store has leases: every store at a URL, and a folder in which one was ever taken."""
    root = store.parents[_LEVELS - 1] if name == TABLE else store
    return is_url(store) or files.exists(lease_file(root))


def require_writable(store: Location) -> None:
    """Refuse what has to write to a store that can only be read."""
    if not is_writable(store):
        raise _not_writable(store, OSError(errno.EACCES, "it can only be read", str(store)))


def _not_writable(store: Location, error: OSError) -> StoreError:
    reason = f"{error.strerror}; check the path and its permissions"
    if (refusal := refusal_of(error)) is not None:
        reason = refused_in_words(refusal, error.filename)
    return StoreError(f"store {store} cannot be written: {reason}")


def held_since(store: Location, name: str = LOCK) -> float | None:
    """When the run that holds the store began, in seconds since the epoch; None where none does."""
    holder = holder_of(store, name)
    return None if holder is None else holder[1]


def holder_of(store: Location, name: str = LOCK) -> tuple[str, float] | None:
    """The holder of the store, and since when; None where there is none. To find out, the lock is taken and released at
    once: a run that starts meanwhile waits. A lease has a holder until it is released or taken over."""
    if is_leased(store, name):
        record = lease_of(store, name)
        return None if record is None or record.stopped else (record.in_words, record.since_seconds)
    holder = lock_holder(store / name)
    return None if holder is None else (holder[0] or "another process", holder[1])


def running_on(store: Location) -> tuple[str, float] | None:
    """Likewise, for people: a holder that has not renewed its lease lately does not count."""
    record = lease_of(store) if is_leased(store) else None
    return holder_of(store) if record is None or record.gives_signs(time.time()) else None


def lease_of(store: Location, name: str = LOCK) -> LeaseRecord | None:
    """The record of a lease; None where nobody ever had it."""
    seen = read_lease(LeaseFile(lease_file(store, name)))
    return None if seen is None else seen.record


def _take(lock: LockFile, store: Location, patient: bool, standby: threading.Event | None) -> None:
    began = time.monotonic()
    while not lock.take():
        by = lock.holder or "another process"
        waited = time.monotonic() - began
        # A process that only asks for the holder (`holder_of`) has released the lock by then.
        wait = PATIENCE_SECONDS if patient and by.startswith(BRIEFLY) else ASKING_SECONDS
        if standby is not None:
            LOG.info("standing by for store %s: %s", store, by)
            if standby.wait(ASKING_SECONDS):
                raise _never_held(store)
        elif waited > wait:
            raise _in_use(store, by)
        time.sleep(0.05)


def _never_held(store: Location) -> StoreInUse:
    return StoreInUse(f"store {store} was never held: the run was stopped while it stood by for it")


def _in_use(store: Location, by: str) -> StoreInUse:
    return StoreInUse(
        f"store {store} is in use by {by}; wait until it is done, stop it (kill -INT) first, or stand by for it "
        "(latecomer run FILE --standby)"
    )
