"""Decodes Protobuf messages in Confluent's framing, in a task.

After the id come the places of the message in its schema: how many, and which. All records of one message type are
parsed at once, as the elements of one list; if that fails, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Integers
from latecomer.model.unknown_fields import KnownFields
from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.reading import reading
from latecomer.schemas.protobuf.schema import Schema
from latecomer.source.decode.framing import (
    HEAD_SIZE,
    End,
    FramedDecoder,
    Frames,
    in_order,
    number_of,
    unreadable,
)
from latecomer.source.decode.garbage import paused_collection
from latecomer.source.decode.protobuf_plan import HEAD, ProtobufPlan, Unusable, places_of

BLOCK = 4_000
"""Records that are decoded together: their messages stay in memory until all columns are made."""


def _by_head(frames: Frames, rows: Integers) -> dict[tuple[tuple[int, ...], int], list[int]]:
    """The rows of records by their places and the bytes before their payloads; no places if they cannot be read."""
    at = frames.starts[rows] + HEAD_SIZE
    is_first = (at < frames.ends[rows]) & (np.frombuffer(frames.data, np.uint8)[at] == 0)
    by_head: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for nth in np.flatnonzero(~is_first):
        head = places_of(frames.records[rows[nth]])
        by_head.setdefault(((), HEAD) if head is None else head, []).append(int(nth))
    first = np.flatnonzero(is_first).tolist()
    return {**by_head, ((0,), HEAD): first} if first else by_head


@dataclass(frozen=True)
class ProtobufMessages(FramedDecoder):
    """Messages as columns of the reader's message."""

    reader: Schema = field(kw_only=True)
    message: str = field(kw_only=True)
    """The message of the reader's schema that determines the columns."""

    def ends(self, number: int) -> End:
        return lambda *_: None  # no payload says where it ends

    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> pa.Table:
        order: list[Sequence[int]] = []
        parts: list[pa.Table] = []
        with paused_collection():
            for (places, start), some in _by_head(frames, rows).items():
                records = [frames.records[row] for row in rows[some]]
                if start != HEAD:
                    records = [each[start - HEAD :] for each in records]
                order.append(some)
                try:
                    plan = self.plan(number, places, columns)
                except Unusable:
                    parts.append(unreadable(columns, len(records)))
                    continue
                for first in range(0, len(records), BLOCK):
                    parts.append(plan.decoded(records[first : first + BLOCK]))
        return in_order(parts, order)

    def unknown_names(self, raw: bytes, known: KnownFields) -> list[str]:
        plan = self._plan_of(raw)
        return [] if isinstance(plan, str) else plan.unknown_names(plan.payload(raw))

    def mistake(self, raw: bytes) -> str:
        if (wrong := self.head_mistake(raw)) is not None:
            return wrong
        plan = self._plan_of(raw)
        if isinstance(plan, str):
            return f"schema {number_of(raw)} {plan}"
        return f"{plan.mistake(plan.payload(raw))} (schema {number_of(raw)})"

    def _plan_of(self, raw: bytes) -> ProtobufPlan | str:
        """How a message is read, or why it cannot be."""
        places = places_of(raw)
        if isinstance(self.writers.get(number_of(raw), ""), str):
            return "cannot be used"
        if places is None:
            return f"has no message where byte {HEAD_SIZE} and those behind it lead"
        try:
            return self.plan(number_of(raw), places[0], reading(self.reader, self.message).columns)
        except Unusable as error:
            return str(error)

    def plan(self, number: int, places: tuple[int, ...], columns: Mapping[str, str]) -> ProtobufPlan:
        """How the messages at these places of a writer's schema are read; `Unusable` if they cannot be."""
        keeps = self.unknown_fields != "ignore"
        plan = _plan(self.reader, self.message, self.writers[number], places, keeps, tuple(columns.items()))
        if isinstance(plan, str):
            raise Unusable(plan)
        return plan


@lru_cache(maxsize=256)
def _plan(
    reader: Schema,
    message: str,
    writer: Schema,
    places: tuple[int, ...],
    keeps: bool,
    columns: tuple[tuple[str, str], ...],
) -> ProtobufPlan | str:
    try:
        return ProtobufPlan.of(reading(reader, message), writer, places, keeps, dict(columns))
    except (SchemaError, Unusable) as error:
        return str(error)
