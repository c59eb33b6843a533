"""A lease: one engine at a time has it, on any store that can replace a file only where it is as it was read.

`lease.json` says who has it. The holder writes it again and again, and each time with another content. Whoever wants it
watches: a lease that did not change for as long as it says itself is taken over, with the next token. The time is that
of the watcher's own clock, between two looks of its own; no clocks of two machines are compared. A holder that was
paused for so long, or cut off, does not know that yet. What it still writes is refused by its token (`fences.py`).

A holder that is only cut off stays the holder until somebody else takes over. It does not give up by the clock.
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
from typing import Protocol
from uuid import uuid4

from latecomer.errors import StoreError

LOG = logging.getLogger(__name__)
TAKEOVER_SECONDS = 30.0
"""After so long without a sign of life, where nobody says otherwise."""
RENEWALS = 5
"""So often the holder gives a sign of life meanwhile."""
LOOKS = 10
"""So often a watcher looks meanwhile, and every LONGEST_PAUSE seconds in any case."""
LONGEST_PAUSE = 2.0
_TRIES = 3
"""So often a write is tried that was refused though nobody else has the lease."""


@dataclass(frozen=True)
class Record:
    """What `lease.json` says."""

    token: int
    """One more with every holder."""
    holder: str
    """What has it, in words."""
    id: str
    """What tells a holder from all others."""
    host: str
    pid: int
    takes_over_after: float
    """How many seconds it may stay as it is."""
    since: str
    """When it was taken, and when it was written last, by the holder's clock: for people."""
    renewed: str
    beat: int = 0
    """Another with every sign of life, so that no two contents are alike."""
    stopped: bool = False
    """Whether the holder has let go: the next one need not wait."""

    @property
    def in_words(self) -> str:
        return f"{self.holder} {self.pid} on {self.host}"

    @property
    def since_seconds(self) -> float:
        """When it was taken, in seconds since the epoch."""
        return datetime.fromisoformat(self.since).timestamp()

    @property
    def renewed_seconds(self) -> float:
        """When it was written last, likewise."""
        return datetime.fromisoformat(self.renewed).timestamp()

    def gives_signs(self, now: float) -> bool:
        """Whether there was a sign of life lately, as people see it: by the clock of the holder, and one's own."""
        return not self.stopped and now - self.renewed_seconds <= 2 * self.takes_over_after

    @property
    def content(self) -> bytes:
        return json.dumps(asdict(self), indent=1).encode() + b"\n"


@dataclass(frozen=True)
class Seen:
    """A record, and the tag of the content that says it."""

    record: Record
    tag: str


class Place(Protocol):
    """Where a lease is kept."""

    @property
    def name(self) -> str:
        """Where that is, for errors."""
        ...

    def read(self) -> tuple[bytes, str] | None:
        """The content and its tag; None where there is none."""
        ...

    def put_new(self, content: bytes) -> str | None:
        """Write it where there is none; the tag, or None where there is one."""
        ...

    def put_over(self, content: bytes, tag: str) -> str | None:
        """Write it over what has this tag; the new tag, or None where it has another."""
        ...


class Clock:
    """The time and the waits of an engine; tests have one of their own."""

    def now(self) -> float:
        """Seconds, from any beginning. It goes on while the process is stopped."""
        return time.monotonic()

    def moment(self) -> str:
        """The time of day, for people."""
        return datetime.now(UTC).isoformat(timespec="seconds")

    def wait(self, stopped: threading.Event, seconds: float) -> bool:
        """Wait so long, or until somebody says that it is over; whether that is so."""
        return stopped.wait(seconds)


@dataclass(frozen=True)
class Holder:
    """Who wants a lease."""

    name: str
    takeover: float | None = None
    """After how many seconds others may take over; None keeps what the lease says."""
    host: str = field(default_factory=socket.gethostname)
    pid: int = field(default_factory=os.getpid)
    id: str = field(default_factory=lambda: uuid4().hex)


def read_lease(place: Place) -> Seen | None:
    """What is written down of a lease; None where nobody ever had it."""
    found = place.read()
    if found is None:
        return None
    content, tag = found
    try:
        record = Record(**json.loads(content))
        if type(record.token) is not int or record.token < 1 or not 0 < record.takes_over_after < 1e9:
            raise TypeError
    except (ValueError, TypeError):
        raise StoreError(
            f"{place.name} cannot be read: it is not what latecomer wrote; make sure that no run is under way, remove "
            "it, and run again"
        ) from None
    return Seen(record, tag)


class Watcher:
    """An engine that wants a lease, and looks whether it can have it."""

    def __init__(
        self, place: Place, holder: Holder, clock: Clock, first_token: Callable[[], int] = lambda: 1
    ) -> None:
        """`first_token` is asked where there is no lease yet: tables may have tokens of one that was removed."""
        self.place, self.holder, self.clock = place, holder, clock
        self._first_token = first_token
        self.found: Record | None = None
        """What the last look has found, of somebody else."""
        self.signs = 0
        """How often its holder has given a sign of life meanwhile."""
        self._seen: tuple[str, float] | None = None

    def look(self) -> Lease | None:
        """Take the lease if it can be had now."""
        seen = read_lease(self.place)
        if seen is None:
            return self._taken(self._first_token(), None)
        if seen.record.id == self.holder.id:  # it was written, and the answer was lost
            return Lease(self.place, seen, self.clock)
        self.found = seen.record
        if seen.record.stopped or self._is_silent(seen):
            return self._taken(seen.record.token + 1, seen)
        return None

    @property
    def pause(self) -> float:
        """How long to wait before the next look. It is not long: the holder may have let go."""
        takeover = self.found.takes_over_after if self.found else TAKEOVER_SECONDS
        return min(takeover / LOOKS, LONGEST_PAUSE)

    def _is_silent(self, seen: Seen) -> bool:
        """Whether the holder has given no sign of life for the whole time."""
        now = self.clock.now()
        if self._seen is None or self._seen[0] != seen.tag:
            self.signs += self._seen is not None
            self._seen = seen.tag, now
        return now - self._seen[1] >= seen.record.takes_over_after

    def _taken(self, token: int, before: Seen | None) -> Lease | None:
        said = before.record.takes_over_after if before else TAKEOVER_SECONDS
        moment, who = self.clock.moment(), self.holder
        takeover = said if who.takeover is None else who.takeover
        mine = Record(token, who.name, who.id, who.host, who.pid, takeover, moment, moment)
        tag = (
            self.place.put_new(mine.content)
            if before is None
            else self.place.put_over(mine.content, before.tag)
        )
        return None if tag is None else Lease(self.place, Seen(mine, tag), self.clock)


class Lease:
    """A lease that was taken, as its holder knows it."""

    def __init__(self, place: Place, mine: Seen, clock: Clock) -> None:
        self.place, self.clock = place, clock
        self._mine = mine
        self._writing = threading.Lock()
        self.lost = False
        """Whether it is known that somebody else has it."""
        self.lost_to: Record | None = None
        """Who; None where that is not known."""
        self.renewed_at = clock.now()
        """When the last sign of life was given, by the own clock."""

    @property
    def token(self) -> int:
        return self._mine.record.token

    @property
    def record(self) -> Record:
        """What was written down last."""
        return self._mine.record

    def renew(self) -> bool:
        """Give a sign of life. False where somebody else has taken over."""
        record = self._mine.record
        return self._write(replace(record, beat=record.beat + 1, renewed=self.clock.moment()))

    def let_go(self) -> None:
        """Have the next one take it at once."""
        record = self._mine.record
        self._write(replace(record, beat=record.beat + 1, renewed=self.clock.moment(), stopped=True))

    def confirm(self) -> bool:
        """Whether this is still the holder, as the store says at this moment."""
        return not self.lost and self._still_mine()

    def _write(self, record: Record) -> bool:
        for _ in range(_TRIES):
            with self._writing:
                if self.lost:
                    return False
                tag = self.place.put_over(record.content, self._mine.tag)
                if tag is not None:
                    self._mine, self.renewed_at = Seen(record, tag), self.clock.now()
                    return True
            if not self._still_mine():
                return False
        return True

    def _still_mine(self) -> bool:
        """Whether it is ours as it is now: a write may have got through that was reported as failed."""
        with self._writing:
            seen = read_lease(self.place)
            if seen is not None and seen.record.id == self._mine.record.id:
                self._mine = seen
                return True
            self.lost, self.lost_to = True, None if seen is None else seen.record
            return False


class Heart:
    """The thread that gives signs of life, for as long as the lease is held."""

    def __init__(self, lease: Lease, on_loss: Callable[[], None] = lambda: None) -> None:
        self.lease, self._on_loss = lease, on_loss
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
                    self._on_loss()
                    return
            except (OSError, StoreError) as error:
                # The store cannot be reached: for others neither, or they take over.
                if not failed:
                    LOG.warning("the lease %s could not be renewed: %s", self.lease.place.name, error)
                failed = True
            else:
                failed = False
