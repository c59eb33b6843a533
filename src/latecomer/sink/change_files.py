"""The change stream, or rows, append only: a folder with one file a batch, Parquet or JSON lines.

A file appears whole or not at all. Its name has the number of its batch, so the folder itself records the progress.
"""

from __future__ import annotations

import json
import os
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path, PurePath
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.config.contract import Shape
from latecomer.config.sinks import JsonlSink, ParquetSink, Sink
from latecomer.errors import first_line
from latecomer.model.written_values import json_rows
from latecomer.sink.base import BRING_BACK, FileSinkLogic, differing, steps_to
from latecomer.store import files
from latecomer.store.failpoints import failpoint
from latecomer.store.files import make_folder, sync_folder

_OWNER = ".latecomer.json"


class ChangesLogic(FileSinkLogic):
    """What both formats share: everything but the encoding."""

    def __init__(self, sink: Sink, path: PurePath, pipeline: str, shape: Shape) -> None:
        super().__init__(path, pipeline, shape)
        self._named = re.compile(rf"batch-(\d{{10,}})\.{self.kind}")

    def open(self) -> None:
        with self._errors_in_words():
            make_folder(self.path)
            self._claim()

    def last_batch(self) -> int:
        with self._errors_in_words():
            return self._progress()

    def peek(self) -> int:
        return self.last_batch() if files.exists(self.path) else -1

    def _apply(self, batch: int, panes: pa.Table) -> None:
        with self._errors_in_words(batch):
            if self._progress() >= batch:
                return
            self._write(
                f"batch-{batch:010d}.{self.kind}",
                lambda file: self._encode(panes, file),
                before_visible=lambda: failpoint(f"sink.{self.kind}.written", batch),
            )

    @abstractmethod
    def _encode(self, panes: pa.Table, file: BinaryIO) -> None:
        """Write the panes in order of publication."""

    def _progress(self) -> int:
        matches = map(self._named.fullmatch, self._names())
        return max((int(match[1]) for match in matches if match), default=-1)

    def _names(self) -> list[str]:
        """The names in the folder, which must exist."""
        names = files.names(self.path)
        if not names and not files.exists(self.path):
            raise FileNotFoundError(2, "No such file or directory", str(self.path))
        return names

    def _write(
        self, name: str, encode: Callable[[BinaryIO], None], before_visible: Callable[[], None] = lambda: None
    ) -> None:
        """Write a file under a hidden name until it is complete and on disk. The next attempt overwrites what a crash
        has left. At a URL a file only appears once it is complete."""
        if not isinstance(self.path, Path):
            memory = BytesIO()
            encode(memory)
            before_visible()
            files.replace_bytes(self.path / name, memory.getvalue())
            return
        hidden = self.path / f".{name.lstrip('.')}.tmp"
        with open(hidden, "wb") as file:
            encode(file)
            file.flush()
            os.fsync(file.fileno())
        before_visible()
        hidden.replace(self.path / name)
        sync_folder(self.path)

    @property
    def _columns(self) -> dict[str, str]:
        return {field.name: str(field.type) for field in self.shape.schema}

    def _claim(self) -> None:
        """A folder belongs to one output: files of another would be taken for our progress."""
        owner = {"pipeline": self.pipeline, "output": self.shape.owner, "format": self.kind}
        record = self.path / _OWNER
        if not files.exists(record):
            self._go_by()
            self._write_owner(owner)
            return
        try:
            written = json.loads(files.read_text(record))
            holder = {key: written[key] for key in owner}
            existing = {str(name): str(kind) for name, kind in written["columns"].items()}
            self._go_by(list(existing))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._refusal(f"{_OWNER} in it cannot be read", "delete that file") from error
        if holder != owner:
            raise self._refusal(
                self._belongs_to("folder", holder["pipeline"], holder["output"]) + f" as {holder['format']}",
                "give the sink another path",
            )
        if difference := differing(existing, self._columns):
            if steps_to(existing, self._columns, self.shape) is None:
                fix = "move the folder away, or give the sink another path"
                raise self._refusal(f"the files in it have other columns ({difference})", fix)
            # From now on files have the wanted columns; older files stay as they are.
            self._write_owner(owner)

    def _write_owner(self, owner: dict[str, str]) -> None:
        text = json.dumps({**owner, "columns": self._columns}, indent=1) + "\n"
        self._write(_OWNER, lambda file: _write_text(file, text))

    @contextmanager
    def _errors_in_words(self, batch: int | None = None) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as error:
            raise self._outage("the folder is gone", BRING_BACK, batch) from error
        except OSError as error:
            raise self._system_refusal(error, batch) or self._refusal(
                f"the folder cannot be used ({first_line(error)})",
                "make it a folder you may write to, or give the sink another path",
                batch,
            ) from error


class ParquetLogic(ChangesLogic):
    kind = ParquetSink.kind

    def _encode(self, panes: pa.Table, file: BinaryIO) -> None:
        pq.write_table(panes, file)


class JsonlLogic(ChangesLogic):
    kind = JsonlSink.kind

    def _encode(self, panes: pa.Table, file: BinaryIO) -> None:
        encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
        for row in json_rows(panes):
            _write_text(file, encode(row) + "\n")


def _write_text(file: BinaryIO, text: str) -> None:
    file.write(text.encode())
