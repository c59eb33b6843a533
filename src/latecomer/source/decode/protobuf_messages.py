"""Decodes Protobuf messages in Confluent's framing, in a task.

After the id come the places of the message in its schema: how many, and which. All records of one message type are
parsed at once, as the elements of one list; if that fails, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from latecomer.model.array_types import Integers
from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.reading import reading
from latecomer.schemas.protobuf.schema import Schema
from latecomer.source.decode.frames import HEAD_SIZE, Decoded, End, FramedDecoder, Frames
from latecomer.source.decode.garbage import paused_collection
from latecomer.source.decode.protobuf_plan import HEAD, Plan, Unusable, places_of

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

    def of_writer(self, number: int, frames: Frames, rows: Integers, columns: Mapping[str, str]) -> Decoded:
        order: list[Sequence[int]] = []
        parts: list[Decoded] = []
        with paused_collection():
            for (places, start), some in _by_head(frames, rows).items():
                records = [frames.records[row] for row in rows[some]]
                if start != HEAD:
                    records = [each[start - HEAD :] for each in records]
                order.append(some)
                try:
                    plan = self.plan(number, places, columns)
                except Unusable:
                    parts.append(Decoded.unreadable(columns, len(records)))
                    continue
                for first in range(0, len(records), BLOCK):
                    parts.append(plan.decoded(records[first : first + BLOCK]))
        return Decoded.joined(parts, order if len(order) > 1 else None)

    def plan(self, number: int, places: tuple[int, ...], columns: Mapping[str, str]) -> Plan:
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
) -> Plan | str:
    try:
        return Plan.of(reading(reader, message), writer, places, keeps, dict(columns))
    except (SchemaError, Unusable) as error:
        return str(error)
