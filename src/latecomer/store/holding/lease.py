"""A lease, which one engine at a time has: for any store that can replace a file only if it is unchanged.

`lease.json` names the holder, which renews it regularly: each time its content is different. An engine that wants the
lease watches it. When the lease has not changed for as long as its own record allows, the watcher takes it over, with
the next token. Only the watcher's clock counts, between two of its looks: clocks of two machines are never compared. A
holder that was paused or cut off for so long does not know yet that it has lost the lease. What it still writes is
refused by its token (`fences.py`).

A holder that is only cut off stays the holder until another engine takes over. It does not give up by the clock.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from uuid import uuid4

from latecomer.errors import StoreError
from latecomer.store import files
from latecomer.store.files import Location, Tagged, as_written

LOG = logging.getLogger(__name__)
TAKEOVER_SECONDS = 30.0
"""After so many seconds without a renewal the lease may be taken over, unless the pipeline file says otherwise."""
RENEWALS = 5
"""How often the holder renews the lease within that time."""
LOOKS = 10
"""How often a watcher looks within that time, and at least every LONGEST_PAUSE seconds."""
LONGEST_PAUSE = 2.0
_TRIES = 3
"""How often a write is tried that was refused although nobody else has the lease."""


@dataclass(frozen=True)
class LeaseRecord:
    """The content of `lease.json`."""

    token: int
    """Every holder has the next number."""
    holder: str
    """The kind of process, for people."""
    id: str
    """A random id of the holder."""
    host: str
    pid: int
    takes_over_after: float
    """The seconds without a renewal after which others may take over."""
    since: str
    """When it was taken, by the holder's clock: for people."""
    renewed: str
    """When it was written last, likewise."""
    beat: int = 0
    """Goes up with every renewal, so that no two contents are the same."""
    stopped: bool = False
    """Whether the holder has released it: the next one need not wait."""

    @property
    def in_words(self) -> str:
        return f"{self.holder} {self.pid} on {self.host}"

    @property
    def since_seconds(self) -> float:
        """When it was taken, in seconds since the epoch."""
        return datetime.fromisoformat(self.since).timestamp()

    @property
    def renewed_seconds(self) -> float:
        """When it was written last, in seconds since the epoch."""
        return datetime.fromisoformat(self.renewed).timestamp()

    def gives_signs(self, now: float) -> bool:
        """Whether it was renewed lately. For people: this compares the holder's clock with our own."""
        return not self.stopped and now - self.renewed_seconds <= 2 * self.takes_over_after

    @property
    def content(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


@dataclass(frozen=True)
class StoredLease:
    """A record, and the tag of the file that it was read from."""

    record: LeaseRecord
    tag: str


@dataclass(frozen=True)
class LeaseFile:
    """Where a lease is kept: an object at a URL, numbered versions in a folder."""

    file: Location

    @property
    def name(self) -> str:
        return str(self.file)

    def read(self) -> Tagged | None:
        return files.read_lease_file(self.file)

    def put_if(self, content: bytes, tag: str | None) -> str | None:
        return files.put_lease_file(self.file, content, tag)


class LeaseClock:
    """The time and the waits of an engine; tests use a clock of their own."""

    def now(self) -> float:
        """Seconds, from any beginning. They go on while the process is stopped."""
        return time.monotonic()

    def moment(self) -> str:
        """The time of day, for people."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait so many seconds, or until `stopped` is set; whether it is set."""
        return stopped.wait(seconds)


@dataclass(frozen=True)
class Holder:
    """An engine that wants a lease."""

    name: str
    takeover: float | None = None
    """After how many seconds others may take over; None keeps the number in the lease."""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    id: str = field(default_factory=lambda: uuid4().hex)


def read_lease(place: LeaseFile) -> StoredLease | None:
    """The record of a lease; None where nobody ever had it."""
    stored = place.read()
    if stored is None:
        return None
    content, tag = stored
    fix = "make sure that no run is under way, remove it, and run again"
    with as_written(place.name, fix):
        record = LeaseRecord(**json.loads(content))
        if type(record.token) is not int or record.token < 1 or not 0 < record.takes_over_after < 1e9:
            raise TypeError
        _ = record.since_seconds, record.renewed_seconds  # moments that can be read
    return StoredLease(record, tag)


class Watcher:
    """Watches a lease that an engine wants, and takes it as soon as possible."""

    def __init__(
        self, place: LeaseFile, holder: Holder, clock: LeaseClock, first_token: Callable[[], int] = lambda: 1
    ) -> None:
        """`first_token` gives the token where there is no lease: tables may have tokens of a lease that was removed."""
        self.place, self.holder, self.clock = place, holder, clock
        self._first_token = first_token
        self.found: LeaseRecord | None = None
        """The record of another holder, as of the last look."""
        self.signs = 0
        """How often the holder was seen to renew it."""
        self._seen: tuple[str, float] | None = None

    def look(self) -> Lease | None:
        """Take the lease if that is possible now."""
        seen = read_lease(self.place)
        if seen is None:
            return self._take(self._first_token(), None)
        if seen.record.id == self.holder.id:  # our write succeeded, and its answer was lost
            return Lease(self.place, seen, self.clock)
        self.found = seen.record
        if seen.record.stopped or self._is_silent(seen):
            return self._take(seen.record.token + 1, seen)
        return None

    @property
    def pause(self) -> float:
        """How long to wait before the next look. It is short: the holder may release the lease."""
        takeover = self.found.takes_over_after if self.found else TAKEOVER_SECONDS
        return min(takeover / LOOKS, LONGEST_PAUSE)

    def _is_silent(self, seen: StoredLease) -> bool:
        """Whether the holder has not renewed the lease for the whole time."""
        now = self.clock.now()
        if self._seen is None or self._seen[0] != seen.tag:
            self.signs += self._seen is not None
            self._seen = seen.tag, now
        return now - self._seen[1] >= seen.record.takes_over_after

    def _take(self, token: int, before: StoredLease | None) -> Lease | None:
        moment, who = self.clock.moment(), self.holder
        takeover = before.record.takes_over_after if before else TAKEOVER_SECONDS
        takeover = takeover if who.takeover is None else who.takeover
        mine = LeaseRecord(token, who.name, who.id, who.host, who.pid, takeover, moment, moment)
        tag = self.place.put_if(mine.content, None if before is None else before.tag)
        return None if tag is None else Lease(self.place, StoredLease(mine, tag), self.clock)


class Lease:
    """A lease, as its holder knows it."""

    def __init__(self, place: LeaseFile, mine: StoredLease, clock: LeaseClock) -> None:
        self.place, self.clock = place, clock
        self._mine = mine
        self._writing = threading.Lock()
        self.lost = False
        """Whether another engine is known to have it."""
        self.lost_to: LeaseRecord | None = None
        """That engine; None where it is not known."""
        self.renewed_at = clock.now()
        """When it was renewed last, by our own clock."""

    @property
    def token(self) -> int:
        return self._mine.record.token

    @property
    def record(self) -> LeaseRecord:
        """The record that was written last."""
        return self._mine.record

    def renew(self) -> bool:
        """Renew it. False where another engine has taken over."""
        record = self._mine.record
        return self._write(replace(record, beat=record.beat + 1, renewed=self.clock.moment()))

    def let_go(self) -> None:
        """Release it, so that the next engine can take it at once."""
        record = self._mine.record
        self._write(replace(record, beat=record.beat + 1, renewed=self.clock.moment(), stopped=True))

    def confirm(self) -> bool:
        """Whether this is still the holder, by the record in the store at this moment."""
        return not self.lost and self._still_mine()

    def _write(self, record: LeaseRecord) -> bool:
        for _ in range(_TRIES):
            with self._writing:
                if self.lost:
                    return False
                tag = self.place.put_if(record.content, self._mine.tag)
                if tag is not None:
                    self._mine, self.renewed_at = StoredLease(record, tag), self.clock.now()
                    return True
            if not self._still_mine():
                return False
        return True

    def _still_mine(self) -> bool:
        """Whether the record in the store is ours: a write that was reported as failed may have succeeded."""
        with self._writing:
            seen = read_lease(self.place)
            if seen is not None and seen.record.id == self._mine.record.id:
                self._mine = seen
                return True
            self.lost, self.lost_to = True, None if seen is None else seen.record
            return False


class Heart:
    """The thread that renews a lease, as long as it is held."""

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="latecomer-lease", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _beat(self) -> None:
        pause, failed = self.lease.record.takes_over_after / RENEWALS, False
        while not self.lease.clock.wait(self._stopped, pause):
            try:
                if not self.lease.renew():
                    return
            except (OSError, StoreError) as error:
                # The store cannot be reached. If others can reach it, they take over.
                if not failed:
                    LOG.warning("the lease %s could not be renewed: %s", self.lease.place.name, error)
                failed = True
            else:
                failed = False
