"""Rebuilds as they lie in the store: what each covers, what it changes, and how far it has come.

outputs/NAME/rebuilds/ID/
  record.json      the plan: written last, so a plan that is there is whole
  panes/           the CORRECTION panes it would publish, without batch and moment
  partials/        where an output means something else from here on: its open windows, anew
  failed/          dead letters of the output: events of the range that it cannot compute
  asked            to be published by whoever runs the pipeline
  batch            the batch it was given: from here on it is carried through, whatever happens
  took             how many seconds its publication took
  stale            the store went on in its range before it could be published
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from hashlib import sha256
from typing import Any

from latecomer.errors import StoreError
from latecomer.store import files
from latecomer.store.fences import confirm_held
from latecomer.store.files import Location, make_folder, parquet_files, replace_text, sync_files
from latecomer.store.rebuild_words import as_text, shown

ASKED, BATCH, STALE, TOOK = "asked", "batch", "stale", "took"
PANES, PARTIALS, FAILED = "panes", "partials", "failed"
_STAGED = (PANES, PARTIALS, FAILED)
_RECORD = "record.json"
_DRAFT = "."
_SECONDS = re.compile(r"[0-9]{1,12}([.][0-9]{1,3})?")
_ABANDONED = 86_400
_ENDLESS = 1e12
_NUMBERS = ("since", "until", "through", "watermark", "low", "high")
"""What of a record stands in queries: numbers, whoever has written the file."""


@dataclass(frozen=True)
class Record:
    """A rebuild: its range, what it rests on, and what it changes."""

    output: str
    since: int
    until: int
    """The windows that start in [since, until), in microseconds."""
    through: int
    """The last batch whose events it has taken in."""
    watermark: int
    """The watermark after that batch: windows that end later are left to the pipeline."""
    low: int
    high: int
    """Events from `low` until `high` that came later would make it stale."""
    definition: Mapping[str, Any] | None
    """What the output means from here on, where that changes."""
    taken_in: Mapping[str, int | str]
    """What the rebuilt windows hold more than before: assignments, and each measure of the ledger."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Windows computed, windows and keys that change, rows new, changed and withdrawn, files and bytes read."""
    sums: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """What the sums and counts of the changed rows come to, before and after, as JSON has them."""
    largest: tuple[Mapping[str, Any], ...] = ()
    """The rows that change most."""
    made_at: int = 0
    seconds: float = 0.0
    """How long it took to compute it; 0 where an earlier version did."""

    @property
    def id(self) -> str:
        """The same plan on the same store has the same name."""
        what = {name: value for name, value in asdict(self).items() if name not in ("made_at", "seconds")}
        return sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def changes(self) -> int:
        """How many windows and keys change."""
        return sum(self.counts.get(kind, 0) for kind in ("new", "changed", "withdrawn"))


@dataclass(frozen=True)
class Rebuild:
    """A rebuild in its folder."""

    folder: Location
    record: Record

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def batch(self) -> int | None:
        """The batch that publishes it, once it has one."""
        written = _read(self.folder / BATCH)
        if written is not None and not written.strip().isdecimal():
            raise StoreError(f"{self.folder / BATCH} is not the number of a batch; restore it")
        return None if written is None else int(written)

    @property
    def seconds(self) -> float | None:
        """How long it took in all, its publication too; None where an earlier version computed it."""
        written = _read(self.folder / TOOK) or "0"
        if not _SECONDS.fullmatch(written.strip()):
            raise StoreError(f"{self.folder / TOOK} is not a number of seconds; remove it")
        return round(self.record.seconds + float(written), 3) if self.record.seconds else None

    @property
    def asked(self) -> bool:
        return files.exists(self.folder / ASKED) and self.batch is None and not self.stale

    @property
    def stale(self) -> bool:
        return files.exists(self.folder / STALE)

    @property
    def kept(self) -> bool:
        """Whether it is still there."""
        return files.exists(self.folder)

    @property
    def whole(self) -> bool:
        """Whether what it would publish is there."""
        return bool(self.panes) or not self.record.changes

    @property
    def panes(self) -> list[Location]:
        return parquet_files(self.folder / PANES)

    @property
    def partials(self) -> list[Location]:
        return parquet_files(self.folder / PARTIALS)

    @property
    def failed(self) -> list[Location]:
        return parquet_files(self.folder / FAILED)

    def ask(self) -> None:
        """Have it published."""
        files.remove(self.folder / STALE)
        replace_text(self.folder / ASKED, "")

    def accept(self, batch: int) -> None:
        """Give it a batch; this is not taken back."""
        confirm_held(self.folder)
        replace_text(self.folder / BATCH, str(batch))

    def refuse(self) -> None:
        """Say that the store has gone on: it has to be computed again."""
        confirm_held(self.folder)
        replace_text(self.folder / STALE, "")
        files.remove(self.folder / ASKED)
        files.remove(self.folder / BATCH)

    def tidy(self, seconds: float) -> None:
        """Published, which took so long: the record stays, the staged files are in the tables."""
        confirm_held(self.folder)
        replace_text(self.folder / TOOK, f"{seconds:.3f}")
        for name in _STAGED:
            files.remove_all(self.folder / name)
        files.remove(self.folder / ASKED)

    def remove(self) -> None:
        files.remove_all(self.folder)

    def __str__(self) -> str:
        """The plan as text, for `print`."""
        return as_text(self)

    def _repr_html_(self) -> str:
        return shown(self)


class Rebuilds:
    """The rebuilds of one output."""

    def __init__(self, root: Location, output: str) -> None:
        self.root = root / "outputs" / output / "rebuilds"

    def __iter__(self) -> Iterator[Rebuild]:
        """Every plan that is whole, published or not, by name."""
        for folder in self._folders():
            written = _read(folder / _RECORD)
            if written is not None:
                yield Rebuild(folder, _record(folder, written))

    def asked(self) -> list[Rebuild]:
        """Those that wait to be published."""
        if not any(files.exists(folder / ASKED) for folder in self._folders()):
            return []
        return [each for each in self if each.asked]

    def of_batch(self, batch: int) -> Rebuild | None:
        """The rebuild that a batch publishes."""
        return next((each for each in self if each.batch == batch), None)

    def published(self, last: int) -> list[Rebuild]:
        """Those that are part of the store's history up to a batch, in order."""
        done = [(each.batch, each) for each in self if each.batch is not None and each.batch <= last]
        return [each for _, each in sorted(done, key=lambda pair: pair[0] or 0)]

    def taken_in(self, unit: str, last: int) -> Decimal:
        """What all rebuilds so far have added to what the windows hold."""
        return sum((Decimal(each.record.taken_in.get(unit, 0)) for each in self.published(last)), Decimal(0))

    def draft(self) -> Location:
        """A folder to compute a plan in; it is none until it is kept. What was left for a day is cleared away."""
        for other in (self.root / name for name in files.names(self.root) if name.startswith(_DRAFT)):
            if time.time() - files.written_at(other) > _ABANDONED:
                files.remove_all(other)
        return self.root / f"{_DRAFT}{uuid.uuid4().hex[:12]}"

    def keep(self, draft: Location, record: Record) -> Rebuild:
        """Make a draft a plan. If the same plan is there, that one is kept."""
        home = self.root / record.id
        written = _read(home / _RECORD)
        if written is not None:
            there = Rebuild(home, _record(home, written))
            if there.whole:
                files.remove_all(draft)
                return there
        files.remove_all(home)
        make_folder(home)
        for name in _STAGED:
            moved = [files.move(file, home / name / file.name) for file in parquet_files(draft / name)]
            sync_files(moved, home)
        replace_text(home / _RECORD, json.dumps(asdict(record), indent=1) + "\n")
        files.remove_all(draft)
        return Rebuild(home, record)

    def _folders(self) -> list[Location]:
        return [self.root / name for name in files.names(self.root)]


def _record(folder: Location, text: str) -> Record:
    try:
        written = json.loads(text)
        sums = {name: (before, after) for name, (before, after) in written["sums"].items()}
        record = Record(**{**written, "sums": sums, "largest": tuple(written["largest"])})
        if not all(type(getattr(record, name)) is int for name in _NUMBERS) or type(record.seconds) is bool:
            raise TypeError
        if not (isinstance(record.seconds, float | int) and 0 <= record.seconds < _ENDLESS):
            raise TypeError
        for amount in record.taken_in.values():
            Decimal(amount)
        return record
    except (ArithmeticError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise StoreError(
            f"{folder / _RECORD} cannot be read: it is not what latecomer wrote; restore it, or remove the folder "
            "if that rebuild was never published"
        ) from None


def _read(file: Location) -> str | None:
    try:
        return files.read_text(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
