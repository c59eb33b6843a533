"""Messages of Protobuf in Confluent's framing, decoded in a task.

Behind the id there are the places of the message in its schema: how many, and which. All records of one message are
parsed at once, as the elements of one list; where that fails, one by one.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.reading import (
    reading,
)
from latecomer.schemas.protobuf.schema import Schema
from latecomer.source.decode.frames import HEAD_SIZE, Decoded, End, FramedDecoder, Frames, Numbers
from latecomer.source.decode.protobuf_plan import HEAD, Plan, Unusable, no_text, places_of
from latecomer.store.layout import source_type

BLOCK = 4_000
"""Records that are looked at together: their messages are at hand while each of their columns is made."""


def _by_head(frames: Frames, rows: Numbers) -> dict[tuple[tuple[int, ...], int], Numbers]:
    """Which records have which places and as many bytes before their payloads; no places where they cannot be read."""
    at = frames.starts[rows] + HEAD_SIZE
    is_first = (at < frames.ends[rows]) & (np.frombuffer(frames.data, np.uint8)[at] == 0)
    others: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for nth in np.flatnonzero(~is_first):
        found = places_of(frames.records[rows[nth]])
        others.setdefault(((), HEAD) if found is None else found, []).append(int(nth))
    made = {head: np.array(each) for head, each in others.items()}
    if is_first.any():
        head = ((0,), HEAD)
        made[head] = np.concatenate([np.flatnonzero(is_first), *([made[head]] if head in made else [])])
    return made


@contextmanager
def paused_collection() -> Iterator[None]:
    """Messages hold no circles, and there are many at once: to look for circles among them takes most of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@dataclass(frozen=True)
class ProtobufMessages(FramedDecoder):
    """Messages as columns of the reader's message."""

    reader: Schema = field(kw_only=True)
    message: str = field(kw_only=True)
    """The one of the reader's schema that the columns follow from."""

    def ends(self, number: int) -> End:
        return lambda *_: None  # no payload says where it ends

    def of_writer(self, number: int, frames: Frames, rows: Numbers, columns: Mapping[str, str]) -> Decoded:
        order: list[Numbers] = []
        parts: list[Decoded] = []
        with paused_collection():
            for (places, start), some in _by_head(frames, rows).items():
                records = [frames.records[row] for row in rows[some]]
                if start != HEAD:
                    records = [each[start - HEAD :] for each in records]
                order.append(some)
                for first in range(0, len(records), BLOCK):
                    block = records[first : first + BLOCK]
                    parts.append(self._of_message(number, places, block, columns))
        if len(parts) == 1:
            return parts[0]
        back = np.argsort(np.concatenate(order))
        corrupt = np.concatenate([each.corrupt for each in parts])[back]
        table = pa.concat_tables([each.columns for each in parts])
        kept = pa.concat_arrays(
            [no_text(len(each.corrupt)) if each.kept is None else each.kept for each in parts]
        )
        if len(order) == 1:
            return Decoded(table, corrupt, kept)
        return Decoded(table.take(pa.array(back)), corrupt, kept.take(pa.array(back)))

    def _of_message(
        self, number: int, places: tuple[int, ...], records: Sequence[bytes], columns: Mapping[str, str]
    ) -> Decoded:
        try:
            plan = self.plan(number, places, columns)
        except Unusable:
            count = len(records)
            nothing = {name: pa.nulls(count, source_type(kind)) for name, kind in columns.items()}
            return Decoded(pa.table(nothing), np.ones(count, np.bool_))
        return plan.decoded(records)

    def plan(self, number: int, places: tuple[int, ...], columns: Mapping[str, str]) -> Plan:
        """How the messages at these places of a writer's schema are read; `Unusable` where they cannot be."""
        keeps = self.unknown_fields != "ignore"
        made = _plan(self.reader, self.message, self.writers[number], places, keeps, tuple(columns.items()))
        if isinstance(made, str):
            raise Unusable(made)
        return made


@lru_cache(maxsize=256)
def _plan(
    reader: Schema,
    message: str,
    writer: Schema,
    places: tuple[int, ...],
    keeps: bool,
    columns: tuple[tuple[str, str], ...],
) -> Plan | str:
    try:
        return Plan.of(reading(reader, message), writer, places, keeps, dict(columns))
    except (SchemaError, Unusable) as error:
        return str(error)
