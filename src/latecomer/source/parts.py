"""A batch of the stream, cut into parts of `max_files_per_batch`.

Spark orders files by modification time alone and takes those of the same millisecond as the folder lists
them. So it is given no limit: it hands over everything that is new, and the limit is kept here, by
modification time and then by path. The cut is written down before the first part is accepted, so that an
interrupted batch is cut in the same places again, whatever the pipeline file says by then.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from latecomer.config.paths import SourcePath
from latecomer.errors import StoreMismatch
from latecomer.source.files import SourceFile

RECORD = "parts.json"


def parts_of(
    root: Path, source_batch: int, files: Sequence[SourceFile], path: str, most: int
) -> list[Sequence[SourceFile]]:
    """The parts of a batch of the stream, each with its files in reading order; `root` is the store's.

    Spark may have found more files than `path` names: those are left out.
    """
    path, size = _recorded(root, source_batch) or _record(root, source_batch, path, most)
    source = SourcePath(path)
    matching = {file for file in files if source.matches(str(file.local))}
    ordered = sorted(matching, key=lambda file: (file.landed, file.path))
    return [ordered[first : first + size] for first in range(0, len(ordered), size)]


def _recorded(root: Path, source_batch: int) -> tuple[str, int] | None:
    try:
        kept = json.loads((root / RECORD).read_text(encoding="utf-8"))
        return (kept["path"], int(kept["size"])) if kept["source_batch"] == source_batch else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreMismatch(f"store {root}: {RECORD} cannot be read ({error}); restore it") from None


def _record(root: Path, source_batch: int, path: str, size: int) -> tuple[str, int]:
    kept = {"source_batch": source_batch, "path": path, "size": size}
    draft = root / f".{RECORD}"
    draft.write_text(json.dumps(kept) + "\n", encoding="utf-8")
    os.replace(draft, root / RECORD)
    return path, size
