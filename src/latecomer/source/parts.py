"""A batch of the stream, cut into parts of `max_files_per_batch`.

Spark orders files by modification time alone and takes those of the same millisecond as the folder lists
them. So it is given no limit: it hands over everything that is new, and the limit is kept here, by
modification time and then by path. The cut is written down before the first part is accepted, so that an
interrupted batch is cut in the same places again, whatever the pipeline file says by then.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path

from latecomer.config.paths import SourcePath, loops_back, special_kind
from latecomer.decode.files import SourceFile
from latecomer.errors import StoreMismatch
from latecomer.source.base import out_of_turn
from latecomer.store.files import read_text, replace_text

LOG = logging.getLogger(__name__)
RECORD = "parts.json"


@dataclass(frozen=True)
class Cut:
    """How a batch of the stream is cut."""

    source_batch: int
    path: str
    size: int
    parts: int = 0
    """How many parts there are: none, if the path names no file of the batch. Not known of older ones."""
    loops: tuple[str, ...] = ()
    """Links to folders that they lie in. Spark finds every file again below them."""


def parts_of(
    root: Path, source_batch: int, files: Sequence[SourceFile], path: str, most: int
) -> list[Sequence[SourceFile]]:
    """The parts of a batch of the stream, each with its files in reading order; `root` is the store's.

    Spark may have found more files than `path` names: those are left out.
    """
    recorded = _recorded(root)
    if recorded is not None and recorded.source_batch == source_batch:
        return _cut(files, recorded.path, recorded.size, recorded.loops)
    loops = _loops(files, path)
    for link in loops:
        LOG.warning("%s is a link to a folder that it lies in: nothing below it is read; remove it", link)
    parts = _cut(files, path, most, loops)
    for file in chain.from_iterable(parts):
        if (kind := special_kind(file.local)) is not None:
            LOG.warning("%s is not read: it is %s; it is a dead letter", file.local, kind)
    cut = Cut(source_batch, path, most, len(parts), loops)
    replace_text(root / RECORD, json.dumps(asdict(cut)) + "\n")
    return parts


def require_next(root: Path, source_batch: int, last: int, parts: int) -> None:
    """Refuse a batch of the stream that does not follow the one before, whole: the files between would be
    missing. `last` is the last batch on the timeline, `parts` how many parts of it are there.

    A batch without parts is on no timeline, so what was recorded counts, too.
    """
    before = _recorded(root)
    if before is None or before.source_batch < last:
        before = Cut(last, "", 0)
    there = parts if before.source_batch == last else 0
    if source_batch > before.source_batch + 1:
        what = f"batch {before.source_batch}" if before.source_batch >= 0 else "none"
    elif source_batch > before.source_batch and there < before.parts:
        what = f"part {there} of the {before.parts} of batch {before.source_batch}"
    else:
        return
    raise out_of_turn(root, source_batch, what)


def _cut(
    files: Sequence[SourceFile], path: str, size: int, loops: Sequence[str]
) -> list[Sequence[SourceFile]]:
    source, looped = SourcePath(path), tuple(f"{link}/" for link in loops)
    matching = {
        file for file in files if source.matches(str(file.local)) and not str(file.local).startswith(looped)
    }
    ordered = sorted(matching, key=lambda file: (file.landed, file.path))
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


def _loops(files: Iterable[SourceFile], path: str) -> tuple[str, ...]:
    """The outermost links on the files' paths that lead back."""
    base = Path(SourcePath(path).base)
    folders = {file.local.parent for file in files}
    below = {each for folder in folders for each in (folder, *folder.parents) if base in each.parents}
    found = sorted(str(folder) for folder in below if loops_back(str(folder)))
    return tuple(link for link in found if not any(link.startswith(f"{other}/") for other in found))


def _recorded(root: Path) -> Cut | None:
    try:
        kept = json.loads(read_text(root / RECORD))
        return Cut(
            int(kept["source_batch"]),
            kept["path"],
            int(kept["size"]),
            int(kept.get("parts", 0)),
            tuple(kept.get("loops", ())),
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreMismatch(f"store {root}: {RECORD} cannot be read ({error}); restore it") from None
