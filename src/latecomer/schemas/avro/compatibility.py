"""Whether data written with one schema can be read with another, by Avro's rules of schema resolution.

Each pair of types that can meet in reading is compared once. A pair is refuted if it has a problem of its own, or if a
pair that it needs is refuted. A reader's union is refuted if all of its branches are. What is never refuted can be
read, so recursive schemas need no special rule.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from latecomer.schemas.avro.naming import simple_name
from latecomer.schemas.avro.types import (
    Array,
    Defined,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Record,
    Schema,
    Type,
    TypeReference,
    Union,
)
from latecomer.schemas.mistakes import Incompatibility, Path, StepLimit, Words, listed

_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}
"""Reader's kind → the other kinds of a writer that it can read."""


def incompatibilities(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """Why data written with `writer` cannot be read with `reader`; empty if it can.

    >>> from latecomer.schemas.avro.parsing import parse_schema
    >>> for problem in incompatibilities(parse_schema('"int"'), parse_schema('"long"')):
    ...     print(problem)
    the schema: long is written, and int is read (TYPE_MISMATCH); read long, float or double
    """
    return _Comparison(reader, writer).problems()


_Key = tuple[int, int]


@dataclass
class _Needed:
    """A pair that another pair needs, and the path to it."""

    path: Path
    pair: _Key


@dataclass
class _Pair:
    reader: Defined
    writer: Defined
    parts: list[Incompatibility | _Needed] = field(default_factory=list)
    """In the order of the schema. Paths are relative to this pair."""
    one_is_enough: bool = False
    """Whether one of the needed pairs is enough: they are the branches of a reader's union."""
    open_branches: int = 0
    """How many of these branches are not refuted."""


class _Comparison:
    def __init__(self, reader: Schema, writer: Schema) -> None:
        self.reader, self.writer = reader, writer
        self.work = StepLimit("compare with another schema")
        self.pairs: dict[_Key, _Pair] = {}
        self.new: list[_Pair] = []
        self.root = self._need(reader.root, writer.root)
        while self.new:
            self._compare(self.new.pop())
        self.refuted = self._refuted()

    def problems(self) -> list[Incompatibility]:
        return self._problems_below(self.root, (), first=False)

    # Pairs

    def _need(self, reader: Type, writer: Type) -> _Key:
        """Add a pair of types. They are compared by identity: a type that is written twice is two types."""
        self.work.spend()
        pair = _Pair(self.reader.resolve(reader), self.writer.resolve(writer))
        key = (id(pair.reader), id(pair.writer))
        if key not in self.pairs:
            self.pairs[key] = pair
            self.new.append(pair)
        return key

    def _compare(self, pair: _Pair) -> None:
        match pair.reader, pair.writer:
            case _, Union(branches=branches):
                for index, branch in enumerate(branches):
                    pair.parts.append(_Needed((index,), self._need(pair.reader, branch)))
            case Union() as union, writer:
                self._branches(pair, union, writer)
            case (Array(items=one), Array(items=other)):
                pair.parts.append(_Needed(("items",), self._need(one, other)))
            case (Map(values=one), Map(values=other)):
                pair.parts.append(_Needed(("values",), self._need(one, other)))
            case (Record() as one, Record() as other):
                self._names(pair, one, other)
                self._fields(pair, one, other)
            case (Enum() as one, Enum() as other):
                self._names(pair, one, other)
                self._symbols(pair, one, other)
            case (Fixed() as one, Fixed() as other):
                self._names(pair, one, other)
                if one.size != other.size:
                    fix = f"keep the size {other.size}, or add a field with the new type beside this one"
                    message = f"{other.size} bytes are written, and {one.size} are read"
                    _refuse(pair, ("size",), "FIXED_SIZE_MISMATCH", (message, fix))
            case one, other:
                if not _reads(one, other):
                    _refuse(pair, (), "TYPE_MISMATCH", _type_mismatch(one, other))

    def _branches(self, pair: _Pair, union: Union, writer: Defined) -> None:
        pair.one_is_enough = True
        self.work.spend(len(union.branches))
        for index, branch in enumerate(union.branches):
            if could_read(self.reader.resolve(branch), writer):
                pair.parts.append(_Needed((index,), self._need(branch, writer)))
        pair.open_branches = len(pair.parts)

    def _names(self, pair: _Pair, reader: Named, writer: Named) -> None:
        if not same_name(reader, writer):
            _refuse(pair, ("name",), "NAME_MISMATCH", _name_mismatch(reader, writer))

    def _symbols(self, pair: _Pair, reader: Enum, writer: Enum) -> None:
        if reader.default is None and (missing := set(writer.symbols) - set(reader.symbols)):
            message = f"{listed(sorted(missing))} may be written, and the reader's {_named(reader)} has no such symbol"
            fix = "keep the symbols that are written, or give the reader's enum a default"
            _refuse(pair, ("symbols",), "MISSING_ENUM_SYMBOLS", (message, fix))

    def _fields(self, pair: _Pair, reader: Record, writer: Record) -> None:
        self.work.spend(len(reader.fields) + len(writer.fields))
        written = {each.name: each for each in writer.fields}
        for index, each in enumerate(reader.fields):
            path: Path = ("fields", index)
            sources = written_fields(each, written)
            if len(sources) > 1:
                names = listed([source.name for source in sources], " and ")
                message = f"the field {each.name} stands for {names}, which are all written"
                fix = "leave all but one name or alias out"
                _refuse(pair, (*path, "aliases"), "NAME_MISMATCH", (message, fix))
            elif sources:
                pair.parts.append(_Needed((*path, "type"), self._need(each.type, sources[0].type)))
            elif each.default is None:
                words = _missing_default(each, reader, writer)
                _refuse(pair, path, "READER_FIELD_MISSING_DEFAULT_VALUE", words)

    # What follows from the pairs

    def _refuted(self) -> set[_Key]:
        needing: dict[_Key, list[_Key]] = {}
        refuted = set[_Key]()
        for key, pair in self.pairs.items():
            for part in pair.parts:
                if isinstance(part, _Needed):
                    needing.setdefault(part.pair, []).append(key)
                else:
                    refuted.add(key)
            if pair.one_is_enough and not pair.open_branches:
                refuted.add(key)
        pending = deque(refuted)
        while pending:
            for key in needing.get(pending.popleft(), ()):
                pair = self.pairs[key]
                pair.open_branches -= 1
                if key not in refuted and not (pair.one_is_enough and pair.open_branches > 0):
                    refuted.add(key)
                    pending.append(key)
        return refuted

    def _problems_below(self, start: _Key, path: Path, *, first: bool) -> list[Incompatibility]:
        """The problems of a refuted pair and of the pairs that it needs, each once; or only the first problem."""
        problems: list[Incompatibility] = []
        pending: list[Incompatibility | _Needed] = [_Needed(path, start)]
        seen = set[_Key]()
        while pending and not (first and problems):
            part = pending.pop()
            if isinstance(part, Incompatibility):
                problems.append(part)
            elif part.pair in self.refuted and part.pair not in seen:
                seen.add(part.pair)
                self.work.spend()
                pair = self.pairs[part.pair]
                parts = [self._missing_branch(pair, first)] if pair.one_is_enough else pair.parts
                if first:  # a problem of the pair itself explains more than those of the pairs that it needs
                    parts = sorted(parts, key=lambda each: isinstance(each, _Needed))
                pending.extend(_below(part.path, each) for each in reversed(parts))
        return problems

    def _missing_branch(self, pair: _Pair, first: bool) -> Incompatibility:
        """The problem of a reader's union, and why its nearest branch cannot be used."""
        nearest = next((part for part in pair.parts if isinstance(part, _Needed)), None)
        written, read = _named(pair.writer), _named(pair.reader)
        message = f"{written} is written, and no branch of the reader's {read} can read it"
        fix = f"add {written} to the reader's union"
        if nearest is not None and not first:
            reasons = self._problems_below(nearest.pair, nearest.path, first=True)
            message, fix = f"{message}: {reasons[0]}", "correct that, or keep the branch as the writer has it"
        return Incompatibility((), "MISSING_UNION_BRANCH", message, fix)


def _refuse(pair: _Pair, path: Path, rule: str, words: Words) -> None:
    pair.parts.append(Incompatibility(path, rule, *words))


def _below(path: Path, part: Incompatibility | _Needed) -> Incompatibility | _Needed:
    if isinstance(part, _Needed):
        return _Needed((*path, *part.path), part.pair)
    return Incompatibility((*path, *part.path), part.rule, part.message, part.fix)


def same_name(reader: Named, writer: Named) -> bool:
    """Whether two named types are the same for Avro: by the name without namespace, or by an alias of the reader's."""
    return simple_name(reader.name) == simple_name(writer.name) or writer.name in reader.aliases


def _reads(reader: Defined, writer: Defined) -> bool:
    return reader.kind == writer.kind or writer.kind in _PROMOTED.get(reader.kind, ())


def could_read(branch: Defined, writer: Defined) -> bool:
    """Whether a branch of a reader's union fits by kind and name."""
    if isinstance(branch, Named) and isinstance(writer, Named):
        return branch.kind == writer.kind and same_name(branch, writer)
    return _reads(branch, writer)


def written_fields(field: Field, written: dict[str, Field]) -> list[Field]:
    """The writer's fields that a reader's field reads, by its name and its aliases: more than one is an error."""
    names = dict.fromkeys((field.name, *field.aliases))
    return [written[name] for name in names if name in written]


# Messages: what is wrong, and the fix


def _named(found: Type) -> str:
    """A type in few words.

    >>> from latecomer.schemas.avro.types import Primitive
    >>> _named(Union((Primitive("null"), TypeReference("a.Ride"))))
    'union of null, a.Ride'
    """
    match found:
        case TypeReference():
            return found.name
        case Union():
            return f"union of {listed([_named(each) for each in found.branches])}"
        case Record() | Enum() | Fixed():
            return f"{found.kind} {found.name}"
    return found.kind


def _type_mismatch(reader: Defined, writer: Defined) -> Words:
    kinds = [kind for kind, others in _PROMOTED.items() if writer.kind in others]
    fix = f"read {listed([writer.kind, *kinds], ' or ')}"
    return f"{_named(writer)} is written, and {_named(reader)} is read", fix


def _name_mismatch(reader: Named, writer: Named) -> Words:
    fix = f"keep the name {simple_name(writer.name)}"
    # An alias that has no namespace is in that of its type.
    if "." in writer.name or "." not in reader.name:
        fix += f", or give the reader's {reader.kind} the alias {writer.name}"
    return f"{_named(writer)} is written, and {_named(reader)} is read", fix


def _missing_default(field: Field, reader: Record, writer: Record) -> Words:
    read = {name for each in reader.fields for name in (each.name, *each.aliases)}
    unread = [each.name for each in writer.fields if each.name not in read]
    fix = "give it a default"
    if unread:
        fix += f", or an alias if it was written under another name: {listed(unread, ' or ')}"
    return f"the field {field.name} is read; it is not written, and it has no default", fix
