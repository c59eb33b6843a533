"""The bytes of Avro: a place in them, and what is passed over, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any

from latecomer.schemas.avro.bounds import deepest_of, endless_records
from latecomer.schemas.avro.types import (
    SIZES,
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Schema,
    Type,
    Union,
)

LONGEST, MOST_ITEMS = 64 << 20, 4 << 20
"""Bytes of a text, and items of a list: what claims more is damaged."""


class Damaged(Exception):
    """Some bytes are no whole record of their schema."""


class TooDeep(Damaged):
    """A record has more records in one another than are gone through."""


class Cursor:
    """A place in some bytes."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data, self.at, self.end = data, at, len(data)

    def read_long(self) -> int:
        return self._number(10, 0xFFFFFFFFFFFFFFFF)

    def read_int(self) -> int:
        return self._number(5, 0xFFFFFFFF)

    def _number(self, most: int, mask: int) -> int:
        data, at, found, shift = self.data, self.at, 0, 0
        for _ in range(most):
            if at >= self.end:
                raise Damaged
            byte = data[at]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.at = at
                found &= mask
                return (found >> 1) ^ -(found & 1)
            shift += 7
        raise Damaged

    def take(self, size: int) -> bytes:
        began, self.at = self.at, self.at + size
        if size < 0 or self.at > self.end:
            raise Damaged
        return self.data[began : self.at]

    def sized(self) -> bytes:
        """The bytes of a text, as many as are said before it."""
        size = self.read_long()
        if size > LONGEST:
            raise Damaged
        return self.take(size)

    def items(self) -> Iterator[None]:
        """Once for each item of a list or a map, which come in blocks. The size of a block is for those who pass over
        it."""
        held = 0
        while count := self.read_long():
            if count < 0:
                count = -count
                self.read_long()
            held += count
            if held > MOST_ITEMS:
                raise Damaged
            yield from repeat(None, count)


Read = Callable[[Cursor], Any]
_SKIP, _NUMBER, _SIZED, _UNION, _NAMED, _BLOCKS, _LEAVE = range(7)
Step = tuple[int, Any]
Steps = tuple[Step, ...]


class Passing:
    """Passes over values of a schema without reading them."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.endless, self.deepest = schema, endless_records(schema), deepest_of(schema)
        self._records: dict[str, Steps] = {}

    def over(self, kind: Type, depth: int) -> Read:
        steps = self._steps(kind)
        if all(step[0] == _SKIP for step in steps):
            size = sum(step[1] for step in steps)
            return lambda cursor: cursor.take(size) and None
        return lambda cursor: self._pass(cursor, steps, depth)

    def _pass(self, cursor: Cursor, steps: Steps, depth: int) -> None:
        left: list[Iterator[Step]] = [iter(steps)]
        while left:
            for kind, of in left[-1]:
                if kind == _SKIP:
                    cursor.take(of)
                elif kind == _NUMBER:
                    cursor.read_int() if of == "int" else cursor.read_long()
                elif kind == _SIZED:
                    cursor.take(cursor.read_long())
                elif kind == _LEAVE:
                    depth -= 1
                else:
                    more = self._more(cursor, kind, of)
                    if kind == _NAMED and of in self.endless:
                        depth += 1
                        if self.deepest is not None and depth > self.deepest:
                            raise TooDeep
                    left.extend(more)
                    break
            else:
                left.pop()

    def _more(self, cursor: Cursor, kind: int, of: Any) -> list[Iterator[Step]]:
        """The steps that come next, the first of them last."""
        if kind == _NAMED:
            return [iter(self._record(of))]
        if kind == _UNION:
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
        if of and count > cursor.end - cursor.at:  # an item has a byte at least
            raise Damaged
        return [rest, chain.from_iterable(repeat(of, count))] if of else [rest]

    def _record(self, name: str) -> Steps:
        if name not in self._records:
            record = self.schema.names[name]
            fields = record.fields if isinstance(record, Record) else ()
            steps = chain.from_iterable(self._steps(field.type) for field in fields)
            leave: Steps = ((_LEAVE, None),) if name in self.endless else ()
            self._records[name] = (*_joined(steps), *leave)
        return self._records[name]

    def _steps(self, kind: Type) -> Steps:
        found = self.schema.resolve(kind)
        match found:
            case Fixed(size=size):
                return ((_SKIP, size),) if size else ()
            case Enum() | Primitive(kind="int"):
                return ((_NUMBER, "int"),)
            case Primitive(kind="long"):
                return ((_NUMBER, "long"),)
            case Primitive(kind="string" | "bytes"):
                return ((_SIZED, None),)
            case Primitive():
                size = SIZES[found.kind]
                return ((_SKIP, size),) if size else ()
            case Union():
                return ((_UNION, tuple(map(self._steps, found.branches))),)
            case Array():
                return ((_BLOCKS, self._steps(found.items)),)
            case Map():
                return ((_BLOCKS, ((_SIZED, None), *self._steps(found.values))),)
            case Record() if found.name not in self.endless and not self._record(found.name):
                return ()
            case Record():
                return ((_NAMED, found.name),)
        raise TypeError(found)


def _joined(steps: Iterator[Step]) -> Steps:
    """The same steps, those over bytes next to each other as one."""
    found: list[Step] = []
    for kind, of in steps:
        if kind == _SKIP and found and found[-1][0] == _SKIP:
            found[-1] = (_SKIP, found[-1][1] + of)
        else:
            found.append((kind, of))
    return tuple(found)
