"""One engine at a time: the one door to a store for whoever changes it.

A folder has an advisory lock, which the kernel releases even after SIGKILL. A store at a URL has a lease, and so has a
folder where the pipeline file asks for one (`lease.py`).
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
from dataclasses import dataclass
from functools import partial

from latecomer.errors import StoreError, StoreInUse
from latecomer.errors.system import refusal_of, refused_in_words
from latecomer.store import files
from latecomer.store.commits import LEASE, is_table, tables_in
from latecomer.store.fences import Fence, standing
from latecomer.store.files import Location, LockFile, is_url, is_writable, lock_holder, make_folder
from latecomer.store.lease import Clock, Heart, Holder, Lease, Record, Watcher, read_lease
from latecomer.store.numbered_files import put_numbered, read_numbered
from latecomer.store.pins import PINS
from latecomer.store.table import Table
from latecomer.store.turns import AWAY, SOURCES, TURN

LOG = logging.getLogger(__name__)
LOCK = ".lock"
"""The whole store."""
COMPACT = ".compact.lock"
"""What keeps a store in shape beside a run: one such at a time."""
TABLE = ".table.lock"
"""A table of the store that is filled beside a run."""
BRIEFLY = "compact in process"
"""Who says so lets go soon: a run that starts meanwhile waits."""
PATIENCE_SECONDS = 60.0
ASKING_SECONDS = 0.3
_REWRITTEN = (PINS, f"{SOURCES}/{TURN}", f"{SOURCES}/{AWAY}")
"""Small files that an engine writes again and again."""
_LEVELS = 3
"""Such a table is so deep in its store: outputs/NAME/corrections."""
_AT_ONCE = 8
"""So many tables are fenced at the same time: on an object store, each is a wait."""


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
    """Hold the store for one run, or say who holds it.

    A store at a URL has a lease. So has a folder once somebody names the seconds until `takeover`; any other folder has
    a lock of the kernel's. On `standby` it is waited for, until that is set. `mend` is called before tables are read.
    """
    if takeover is None and not is_leased(store, name):
        with _locked(store, name, holder, standby):
            if not is_leased(store, name):  # somebody may have begun with a lease meanwhile
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
    watcher = Watcher(place, holder, Clock(), partial(_first_token, store, name))
    lease = _first(store, name, watcher, standby, mend) or _taken(store, watcher, standby)
    heart = Heart(lease)
    try:
        mend()
        fence = Fence(store, APPLICATIONS[name], lease, around_files=name == LOCK)
        put_up(fence, name)
        with standing(fence):
            try:
                yield
            except Exception as error:
                if _is_lost(fence, error):
                    raise fence.refusal() from error
                raise
    finally:
        heart.stop()
        with suppress(OSError, StoreError):  # what went wrong before is the news; the next one waits a little
            lease.let_go()


def _is_lost(fence: Fence, error: Exception) -> bool:
    """Whether an engine has failed because somebody else has taken over, whatever it has failed with."""
    with suppress(OSError, StoreError):
        return not isinstance(error, StoreInUse) and not fence.lease.confirm()
    return False


def _first(
    store: Location,
    name: str,
    watcher: Watcher,
    standby: threading.Event | None,
    mend: Callable[[], object],
) -> Lease | None:
    """The first lease in a folder: whoever holds the kernel's lock there knows nothing of leases."""
    if is_url(store) or files.exists(lease_file(store, name)):
        return None
    try:
        with _locked(store, name, watcher.holder.name, standby):
            mend()  # the first token is one above those in the tables
            return watcher.look()
    except StoreInUse:
        raise
    except StoreError:  # a folder without such locks, as some that are shared
        make_folder(store)
        return None


def _taken(store: Location, watcher: Watcher, standby: threading.Event | None) -> Lease:
    """The lease, as soon as it can be had; refused where its holder gives a sign of life and nobody stands by."""
    never, began = standby or threading.Event(), watcher.clock.now()
    while True:
        try:
            if (lease := watcher.look()) is not None:
                return lease
        except OSError as error:
            if standby is None:
                raise _not_writable(store, error) from None
            LOG.info("standing by for store %s, which cannot be reached (%s)", store, error)
        found = watcher.found
        briefly = found is not None and found.holder.startswith(BRIEFLY)
        patience = PATIENCE_SECONDS if briefly and not watcher.holder.name.startswith(BRIEFLY) else 0.0
        if found is not None and standby is None and watcher.signs:
            if watcher.clock.now() - began >= patience:
                raise _in_use(store, found.in_words)
        elif found is not None:
            what = "standing by for" if standby else "asking for a sign of life of who has"
            LOG.info("%s store %s: %s (token %d)", what, store, found.in_words, found.token)
        if watcher.clock.wait(never, watcher.pause):
            raise StoreInUse(f"store {store} was never held: the run was stopped while it stood by for it")


def _first_token(store: Location, name: str) -> int:
    """A token above those in the tables of a store without a lease: it may be a copy, or its lease was removed."""
    found = [Table(root, None).last_batch(APPLICATIONS[name]) for root in _fenced_in(store, name)]
    return max([0, *found]) + 1


def _fenced_in(store: Location, name: str) -> list[Location]:
    """The tables that a lease is about."""
    return [store] * is_table(store) if name == TABLE else tables_in(store)


def put_up(fence: Fence, name: str) -> None:
    """Have the tables and small files of a store refuse whoever had the lease before."""
    tables = [Table(root, None) for root in _fenced_in(fence.root, name) if fence.covers(root)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(lambda table: table.fence_off(fence), tables))
    fence.confirm()
    for file in _REWRITTEN if fence.around_files else ():
        fence.adopt(fence.root / file)


@contextmanager
def _locked(
    store: Location, name: str, holder: str, standby: threading.Event | None = None
) -> Iterator[None]:
    """Hold the lock that the kernel keeps."""
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
            with suppress(OSError):  # what went wrong before is the news
                lock.sign("")


@dataclass(frozen=True)
class LeaseFile:
    """Where a lease is kept: an object at a URL, numbered versions in a folder."""

    file: Location

    @property
    def name(self) -> str:
        return str(self.file)

    def read(self) -> tuple[bytes, str] | None:
        return files.read_tagged(self.file) if is_url(self.file) else read_numbered(self.file)

    def put_new(self, content: bytes) -> str | None:
        return files.put_new(self.file, content) if is_url(self.file) else self._numbered(content, None)

    def put_over(self, content: bytes, tag: str) -> str | None:
        return files.put_over(self.file, content, tag) if is_url(self.file) else self._numbered(content, tag)

    def _numbered(self, content: bytes, tag: str | None) -> str | None:
        return put_numbered(self.file, content, tag)


APPLICATIONS = {LOCK: LEASE, COMPACT: f"{LEASE}-compact", TABLE: f"{LEASE}-table"}
"""The transaction that carries the token of each lease: a table has several."""
_NAMES = {LOCK: "lease", COMPACT: "compact.lease", TABLE: "table.lease"}
OF_ONE_STORE = frozenset({*_NAMES, *_NAMES.values(), *(f"{name}.json" for name in _NAMES.values())})
"""What of locks and leases lies in a store: a copy of it has its own."""


def lease_file(store: Location, name: str = LOCK) -> Location:
    """What says who has a lease."""
    return store / (f"{_NAMES[name]}.json" if is_url(store) else _NAMES[name])


def is_leased(store: Location, name: str = LOCK) -> bool:
    """Whether a store has leases: every one at a URL, and a folder in which somebody has begun with it."""
    root = store.parents[_LEVELS - 1] if name == TABLE else store
    return is_url(store) or files.exists(lease_file(root))


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


def held_since(store: Location, name: str = LOCK) -> float | None:
    """When the run that holds the store began, in seconds since the epoch; None where none does."""
    found = held(store, name)
    return None if found is None else found[1]


def held(store: Location, name: str = LOCK) -> tuple[str, float] | None:
    """Who holds the store, and since when. It is asked for and let go at once; who starts meanwhile waits. Whoever had
    a lease holds it until somebody else has taken it."""
    if is_leased(store, name):
        record = lease_of(store, name)
        return None if record is None or record.stopped else (record.in_words, record.since_seconds)
    found = lock_holder(store / name)
    return None if found is None else (found[0] or "another process", found[1])


def running_on(store: Location) -> tuple[str, float] | None:
    """Likewise, for people: who has given no sign of life lately does not count."""
    record = lease_of(store) if is_leased(store) else None
    return held(store) if record is None or record.gives_signs(time.time()) else None


def lease_of(store: Location, name: str = LOCK) -> Record | None:
    """What is written down of a lease; None where nobody ever had it."""
    seen = read_lease(LeaseFile(lease_file(store, name)))
    return None if seen is None else seen.record


def _take(lock: LockFile, store: Location, patient: bool, standby: threading.Event | None) -> None:
    began = time.monotonic()
    while not lock.take():
        by = lock.holder or "another process"
        waited = time.monotonic() - began
        # Whoever only asks who holds the store has let go by then.
        wait = PATIENCE_SECONDS if patient and by.startswith(BRIEFLY) else ASKING_SECONDS
        if standby is not None:
            LOG.info("standing by for store %s: %s", store, by)
            if standby.wait(ASKING_SECONDS):
                raise StoreInUse(
                    f"store {store} was never held: the run was stopped while it stood by for it"
                )
        elif waited > wait:
            raise _in_use(store, by)
        time.sleep(0.05)


def _in_use(store: Location, by: str) -> StoreInUse:
    return StoreInUse(
        f"store {store} is in use by {by}; wait until it is done, stop it (kill -INT) first, or stand by for it "
        "(latecomer run FILE --standby)"
    )
