"""A pipeline's store and outputs, opened to be read; and windows and keys as conditions in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow as pa

from latecomer.after.opening import not_computed
from latecomer.after.reading.asof import holds
from latecomer.after.reading.questions import Book, literal
from latecomer.config.arguments import require_kind
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError, Problem, StoreMismatch, did_you_mean, other_settings
from latecomer.model.durations import to_micros
from latecomer.store.definitions import definition_of, require_wall_clock
from latecomer.store.layout import PaneLayout
from latecomer.store.pins import read_pins
from latecomer.store.recovery import require_output
from latecomer.store.sql import double_quoted, moment_literal
from latecomer.store.store import Store, open_store


class StoreReader:
    """Opens the store of a pipeline. Its methods are for other modules of latecomer; users call those of `Reader`."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline

    def store(self) -> Store:
        """The store as it is now; an error where it belongs to another pipeline."""
        pinned = read_pins(self.pipeline.store_path)
        if pinned is not None and pinned["pipeline"] != self.pipeline.name:
            raise StoreMismatch(
                f"store {self.pipeline.store_path} belongs to pipeline {pinned['pipeline']}, "
                f"not {self.pipeline.name}; correct name or store in the pipeline file"
            )
        return self._opened()

    def _opened(self) -> Store:
        return open_store(self.pipeline)

    def book(self, name: str) -> Book:
        """An output and its tables; an error where the output was computed with other settings."""
        require_kind("Reader", str, "the name of an output", output=name)
        output = self.pipeline.outputs.get(name)
        if output is None:
            raise self.unknown("output", "the pipeline has no such output", name, self.pipeline.outputs)
        store = self.store()
        pinned = (read_pins(store.root) or {})["outputs"].get(name)
        if pinned is None:
            raise not_computed(name)
        wanted = definition_of(output)
        require_wall_clock(name, pinned, wanted)
        changed = [key for key in wanted if pinned.get(key) != wanted[key]]
        if changed:
            raise StoreMismatch(
                f"output {name} was computed with {other_settings(changed)} than the file says now; restore "
                f"the file, or {store.fix_for_definition(name, pinned)}"
            )
        require_output(store, name)
        layout = PaneLayout(output, store.layout)
        return Book(name, output, layout, store.output_tables(name, layout.published))

    def condition(self, book: Book, window: datetime | None, key: Mapping[str, str | None] | None) -> str:
        """The rows of the window that holds a moment and of a key, as a condition in SQL."""
        conditions = [self.key_condition(book, column, text) for column, text in (key or {}).items()]
        if window is not None:
            conditions.append(holds(moment_literal(to_micros(window))))
        return " and ".join(conditions) or "true"

    def key_condition(self, book: Book, column: str, text: str | None) -> str:
        """Whether a key column has a value, written as text, as a condition in SQL."""
        kind = book.layout.keys.get(column)
        if kind is None:
            raise self.unknown("key", "the output has no such key column", column, book.layout.keys)
        if text is None:
            return f"{double_quoted(column)} is null"
        try:
            return f"{double_quoted(column)} = {literal(text, book.layout.published.field(column).type)}"
        except (ValueError, pa.ArrowException):
            fix = "write it as the results show it"
            raise self.refused(f"key {column}", f"is not of type {kind}", text, fix) from None

    def unknown(self, field: str, message: str, value: str, known: Iterable[str]) -> PipelineError:
        """The error for a name that is none of the known ones."""
        return self.refused(field, message, value, did_you_mean(value, known))

    def refused(self, field: str, message: str, value: object, fix: str) -> PipelineError:
        """The error for a wrong argument; it names the pipeline as its place."""
        return PipelineError([Problem(field, message, value, fix, f"pipeline {self.pipeline.name}")])
