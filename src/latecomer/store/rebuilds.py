"""Rebuilds in the store: what each covers, what it changes, and its state.

outputs/NAME/rebuilds/ID/
  record.json      the plan: written last, so a plan that exists is whole
  panes/           the CORRECTION panes it would publish, without batch and moment
  partials/        if the definition of the output changes: its open windows, computed anew
  failed/          dead letters of the output: events of the range that it cannot compute
  asked            to be published by the running pipeline
  batch            its batch: from here on the rebuild is completed, whatever happens
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
from decimal import Decimal, localcontext
from hashlib import sha256
from typing import Annotated, Any

import pyarrow as pa
from pydantic import ConfigDict, Field, TypeAdapter

from latecomer.config.sizes import size_in_words
from latecomer.errors import LatecomerError, StoreError
from latecomer.model.counting import counted
from latecomer.model.ledger import exact_amounts
from latecomer.model.markup import MOST_ROWS, escape, fragment, heading, table, text_table, warning
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.written_values import csv_text, padded_text
from latecomer.model.zoned import current_zone, in_zone, read, written
from latecomer.model.zones import is_zone
from latecomer.store import files
from latecomer.store.files import Location, make_folder, parquet_files, replace_text, sync_files
from latecomer.store.holding.fences import confirm_held
from latecomer.store.pins import read_pins

ASKED, BATCH, STALE, TOOK = "asked", "batch", "stale", "took"
PANES, PARTIALS, FAILED = "panes", "partials", "failed"
_STAGED = (PANES, PARTIALS, FAILED)
_RECORD = "record.json"
_DRAFT = "."
_SECONDS = re.compile(r"[0-9]{1,12}([.][0-9]{1,3})?")
_ABANDONED = 86_400


@dataclass(frozen=True)
class RebuildRecord:
    """A rebuild: its range, what it was computed from, and what it changes.

    Its types are checked when it is read from the store: its numbers are used in queries.
    """

    __pydantic_config__ = ConfigDict(strict=True, extra="forbid")
    output: str
    since: int
    until: int
    """The windows that start in [since, until), in microseconds."""
    through: int
    """The last batch whose events it includes."""
    watermark: int
    """The watermark after that batch: windows that end later are not rebuilt."""
    low: int
    high: int
    """Later events with times from `low` until `high` make it stale."""
    definition: Mapping[str, Any] | None
    """The new definition of the output, if that changes."""
    taken_in: Mapping[str, int | str]
    """How much more the rebuilt windows hold than before: assignments, and each measure of the ledger."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Windows computed, windows and keys that change, rows new, changed and withdrawn, files and bytes read."""
    sums: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """The sums and counts over the changed rows, before and after, as in JSON."""
    largest: tuple[Mapping[str, Any], ...] = ()
    """The rows that change most."""
    made_at: int = 0
    seconds: Annotated[float, Field(ge=0, lt=1e12)] = 0.0
    """How long it took to compute it; 0 if an earlier version did."""

    @property
    def id(self) -> str:
        """A digest: the same plan on the same store has the same id."""
        content = {name: value for name, value in asdict(self).items() if name not in ("made_at", "seconds")}
        return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]

    @property
    def changes(self) -> int:
        """How many windows and keys change."""
        return sum(self.counts.get(kind, 0) for kind in ("new", "changed", "withdrawn"))


_STORED = TypeAdapter(RebuildRecord)


@dataclass(frozen=True)
class Rebuild:
    """A rebuild in its folder."""

    folder: Location
    record: RebuildRecord

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def batch(self) -> int | None:
        """The batch that publishes it, once it has one."""
        written = files.text_of(self.folder / BATCH)
        if written is not None and not written.strip().isdecimal():
            raise StoreError(f"{self.folder / BATCH} is not the number of a batch; restore it")
        return None if written is None else int(written)

    @property
    def seconds(self) -> float | None:
        """How long it took, with its publication; None if an earlier version computed it."""
        written = files.text_of(self.folder / TOOK) or "0"
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
        """Whether it still exists."""
        return files.exists(self.folder)

    @property
    def whole(self) -> bool:
        """Whether the panes that it would publish exist."""
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
        """Request its publication."""
        files.remove(self.folder / STALE)
        replace_text(self.folder / ASKED, "")

    def accept(self, batch: int) -> None:
        """Give it a batch; this is final."""
        confirm_held(self.folder)
        replace_text(self.folder / BATCH, str(batch))

    def refuse(self) -> None:
        """Mark it as stale: the store has gone on, and it has to be computed again."""
        confirm_held(self.folder)
        replace_text(self.folder / STALE, "")
        files.remove(self.folder / ASKED)
        files.remove(self.folder / BATCH)

    def tidy(self, seconds: float) -> None:
        """It was published, which took so many seconds: the record stays, the staged files are removed."""
        confirm_held(self.folder)
        replace_text(self.folder / TOOK, f"{seconds:.3f}")
        for name in _STAGED:
            files.remove_all(self.folder / name)
        files.remove(self.folder / ASKED)

    def remove(self) -> None:
        files.remove_all(self.folder)

    def __str__(self) -> str:
        """The plan in lines of text, with times in the zone of the output's windows."""
        record = self.record
        with in_zone(_zone(self)):
            tables = [
                pa.Table.from_pylist(rows)
                for rows in (changed_sums(record), list(largest_changes(record)))
                if rows
            ]
            texts = (line for each in tables for line in ("", *text_table(each, current_zone(), MOST_ROWS)))
            return "\n".join([plan_title(self), *plan_lines(record), _state(self), *texts])

    def _repr_html_(self) -> str:
        """The plan as a part of a page, likewise."""
        with in_zone(_zone(self)):
            return fragment(_parts(self))


class Rebuilds:
    """The rebuilds of one output."""

    def __init__(self, root: Location, output: str) -> None:
        self.root = root / "outputs" / output / "rebuilds"

    def __iter__(self) -> Iterator[Rebuild]:
        """Every plan that is whole, published or not, by name."""
        for folder in self._folders():
            written = files.text_of(folder / _RECORD)
            if written is not None:
                yield Rebuild(folder, _record(folder, written))

    def asked(self) -> list[Rebuild]:
        """The plans that wait to be published."""
        if not any(files.exists(folder / ASKED) for folder in self._folders()):
            return []
        return [each for each in self if each.asked]

    def of_batch(self, batch: int) -> Rebuild | None:
        """The rebuild that a batch publishes; None where there is none."""
        return next((each for each in self if each.batch == batch), None)

    def published(self, last: int) -> list[Rebuild]:
        """The rebuilds that were published up to a batch, in order."""
        done = [(each.batch, each) for each in self if each.batch is not None and each.batch <= last]
        return [each for _, each in sorted(done, key=lambda pair: pair[0] or 0)]

    @exact_amounts()
    def taken_in(self, unit: str, last: int) -> Decimal:
        """How much all rebuilds up to a batch have added to the windows."""
        return sum((Decimal(each.record.taken_in.get(unit, 0)) for each in self.published(last)), Decimal(0))

    def draft(self) -> Location:
        """A folder to compute a plan in, which becomes a plan by `keep`. Drafts older than a day are removed."""
        for other in (self.root / name for name in files.names(self.root) if name.startswith(_DRAFT)):
            if time.time() - files.written_at(other) > _ABANDONED:
                files.remove_all(other)
        return self.root / f"{_DRAFT}{uuid.uuid4().hex[:12]}"

    def keep(self, draft: Location, record: RebuildRecord) -> Rebuild:
        """Make a draft a plan. If the same plan exists, that one is kept."""
        home = self.root / record.id
        written = files.text_of(home / _RECORD)
        if written is not None:
            existing = Rebuild(home, _record(home, written))
            if existing.whole:
                files.remove_all(draft)
                return existing
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


def _record(folder: Location, text: str) -> RebuildRecord:
    with files.as_written(
        folder / _RECORD, "restore it, or remove the folder if that rebuild was never published"
    ):
        record = _STORED.validate_json(text)
        for amount in record.taken_in.values():
            Decimal(amount)
        return record


# A plan in words: for the command line and for notebooks


def plan_title(rebuild: Rebuild) -> str:
    """The plan's id, output and windows."""
    return f"plan {rebuild.id}: {rebuild.record.output}, windows that start {_range_in_words(rebuild.record)}"


def _range_in_words(record: RebuildRecord) -> str:
    """The windows that a rebuild covers."""
    since, until = (_moment(each) for each in (record.since, record.until))
    if since is None:
        return "at any time" if until is None else f"until {until}"
    return f"from {since} on" if until is None else f"from {since} until {until}"


def _moment(micros: int) -> str | None:
    return None if micros in (BEGIN_OF_TIME, END_OF_TIME) else written(micros)


def plan_lines(record: RebuildRecord) -> Iterator[str]:
    """What it was computed from, and how much it changes."""
    counts = record.counts
    read_from = f"{counted(counts['files'], 'file')}, {counted(counts['rows'], 'row')}"
    yield f"by the log up to batch {record.through}: {read_from}, {size_in_words(counts['bytes'])}"
    if "computed" in counts:
        yield f"{counted(counts['computed'], 'window')} computed in {record.seconds:.1f} s"
    if record.definition is not None:
        yield "the output means something else from here on: windows that are open, or within their lateness, too"
    if not record.changes:
        yield "nothing changes: every closed window says what the log says"
        return
    yield (
        f"{counted(counts['windows'], 'window')} and {counted(counts['keys'], 'key')} change: "
        f"{counts['new']:,} new, {counts['changed']:,} changed, {counts['withdrawn']:,} withdrawn"
    )


def changed_sums(record: RebuildRecord) -> list[dict[str, str]]:
    """The sums of the changed rows, before and after; empty where nothing changes."""
    if not record.changes:
        return []
    return [
        {
            "of what changes": name,
            **_compared(before, after),
        }
        for name, (before, after) in record.sums.items()
    ]


def largest_changes(record: RebuildRecord) -> Iterator[dict[str, Any]]:
    """The rows that change most."""
    for row in record.largest:
        values = {
            name: f"{_or_dash(row['before'][name])} → {_or_dash(row['after'][name])}"
            for name in row["before"]
        }
        yield {
            "window_start": written(read(row["window_start"])),
            **row["key"],
            "change": row["change"],
            **values,
        }


def _state(rebuild: Rebuild) -> str:
    """The state of a plan: published, stale, or waiting."""
    if rebuild.batch is not None:
        return f"published as batch {rebuild.batch}"
    if rebuild.stale:
        return "stale: the store has gone on in its range, so it has to be planned anew"
    return "to be published by the running pipeline" if rebuild.asked else "nothing is published yet"


def _zone(rebuild: Rebuild) -> str:
    """The zone of the windows, as pinned in the store of the plan."""
    try:
        pinned = read_pins(rebuild.folder.parents[3]) or {}
    except LatecomerError:  # a plan can be read where its store cannot
        pinned = {}
    definition = rebuild.record.definition or pinned.get("outputs", {}).get(rebuild.record.output, {})
    zone = definition.get("window", {}).get("zone")
    return zone if isinstance(zone, str) and is_zone(zone) else "UTC"


def _parts(rebuild: Rebuild) -> Iterator[str]:
    yield from heading(plan_title(rebuild), "; ".join(plan_lines(rebuild.record)))
    yield warning(_state(rebuild)) if rebuild.stale else f"<p>{escape(_state(rebuild))}</p>"
    if changed := changed_sums(rebuild.record):
        yield from table(list(changed[0]), [list(row.values()) for row in changed], numbers=[1, 2, 3])
    rows = list(largest_changes(rebuild.record))
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))
        yield from heading("the largest changes")
        yield from table(names, [[csv_text(row.get(name)) for name in names] for row in rows])


def _compared(before: Any, after: Any) -> dict[str, str]:
    """Two sums and their difference, with the digits of their column: as in JSON, a decimal is text."""
    one, other = (Decimal(str(amount or 0)) for amount in (before, after))
    texts = [amount for amount in (before, after) if isinstance(amount, str)]
    digits = max((len(text.partition(".")[2]) for text in texts), default=0)
    with localcontext(prec=100):
        by = other - one
    shown = [padded_text(amount, digits) for amount in (one, other, by)]
    return {"before": shown[0], "after": shown[1], "difference": ("" if by < 0 else "+") + shown[2]}


def _or_dash(value: Any) -> str:
    return "-" if value is None else csv_text(value) or ""
