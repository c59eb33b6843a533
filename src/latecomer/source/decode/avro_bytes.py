"""Reads the bytes of Avro, and passes over values without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

from latecomer.schemas.avro.ends import NAMED, NUMBER, SKIP, TEXT, UNION, Step, Steps, Ways
from latecomer.schemas.avro.types import Schema, Type, deepest_of

LONGEST, MOST_ITEMS = 64 << 20, 4 << 20
"""Bytes of a text, and items of a list, at most: what claims more is damaged."""


class Damaged(Exception):
    """The bytes are no whole record of their schema."""


class TooDeep(Damaged):
    """A record has more records within one another than are read."""


class ByteCursor:
    """A place in some bytes."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at, self.end = data, at, len(data)

    def read_long(self) -> int:
        return self._number(10, 0xFFFFFFFFFFFFFFFF)

    def read_int(self) -> int:
        return self._number(5, 0xFFFFFFFF)

    def _number(self, most: int, mask: int) -> int:
        data, at, number, shift = self.data, self.at, 0, 0
        for _ in range(most):
            if at >= self.end:
                raise Damaged
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                number &= mask
                return (number >> 1) ^ -(number & 1)
            shift += 7
        raise Damaged

    def take(self, size: int) -> bytes:
        began, self.at = self.at, self.at + size
        if size < 0 or self.at > self.end:
            raise Damaged
        return self.data[began : self.at]

    def sized(self) -> bytes:
        """The bytes of a text, whose size comes before it."""
        size = self.read_long()
        if size > LONGEST:
            raise Damaged
        return self.take(size)

    def items(self) -> Iterator[None]:
        """Once for each item of a list or a map. Items come in blocks; the size of a block is only needed to pass over
        it."""
        total = 0
        while count := self.read_long():
            if count < 0:
                count = -count
                self.read_long()
            total += count
            if total > MOST_ITEMS:
                raise Damaged
            yield from repeat(None, count)


Read = Callable[[ByteCursor], Any]
_LEAVE = -1
"""The step after those over a record that can hold itself."""


class Passing:
    """Passes over values of a schema without reading them."""

    def __init__(self, schema: Schema) -> None:
        self.ways, self.deepest = Ways(schema), deepest_of(schema)
        self.endless = self.ways.endless

    def over(self, kind: Type, depth: int) -> Read:
        steps = self.ways.over(kind)
        if all(step[0] == SKIP for step in steps):
            size = sum(step[1] for step in steps)
            return lambda cursor: cursor.take(size) and None
        return lambda cursor: self._pass(cursor, steps, depth)

    def _pass(self, cursor: ByteCursor, steps: Steps, depth: int) -> None:
        left: list[Iterator[Step]] = [iter(steps)]
        while left:
            for kind, of in left[-1]:
                if kind == SKIP:
                    cursor.take(of)
                elif kind == NUMBER:
                    cursor.read_int() if of == "int" else cursor.read_long()
                elif kind == TEXT:
                    cursor.take(cursor.read_long())
                elif kind == _LEAVE:
                    depth -= 1
                else:
                    if kind == NAMED and of in self.endless:
                        depth += 1
                        if self.deepest is not None and depth > self.deepest:
                            raise TooDeep
                    left.extend(self._more(cursor, kind, of))
                    break
            else:
                left.pop()

    def _more(self, cursor: ByteCursor, kind: int, of: Any) -> list[Iterator[Step]]:
        """The steps that come next; the first of them is the last in the list."""
        if kind == NAMED:
            leave: Steps = ((_LEAVE, None),) if of in self.endless else ()
            return [iter(self.ways.over_record(of) + leave)]
        if kind == UNION:
            nth = cursor.read_int()
            if not 0 <= nth < len(of):
                raise Damaged
            return [iter(of[nth])]
        count = cursor.read_long()
        if not count:
            return []
        rest = iter(((kind, of),))
        if count < 0:  # the size of the items follows
            cursor.take(cursor.read_long())
            return [rest]
        if of and count > cursor.end - cursor.at:  # an item has at least one byte
            raise Damaged
        return [rest, chain.from_iterable(repeat(of, count))] if of else [rest]
