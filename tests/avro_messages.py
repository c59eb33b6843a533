"""Random schemas of plain fields, writers that a reader understands, and messages of theirs, whole and damaged."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from avro_data import DataMaker, number
from latecomer.schemas.avro import Schema, logical_type, parse_schema
from latecomer.schemas.avro.types import Type

DAY = 86_400_000_000
_NAMES = ("shop", "city", "fare", "tip", "note", "at", "due", "kind", "fee", "ok")


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimal(precision: int, scale: int, size: int | None = None) -> dict[str, Any]:
    if size is None:
        return logical("bytes", "decimal", precision=precision, scale=scale)
    named = {"name": f"D{size}", "size": size}
    return {**logical("fixed", "decimal", precision=precision, scale=scale), **named}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "Kind", "symbols": list(symbols), **more}


READ_AS: list[tuple[Any, list[Any], Any]] = [
    # what a reader has, what writers may have for it, a default
    ("boolean", ["boolean"], True),
    ("int", ["int"], -7),
    ("long", ["int", "long"], 1 << 40),
    ("double", ["int", "long", "float", "double"], 2),
    ("string", ["string"], "é"),
    (logical("string", "uuid"), ["string"], "x"),
    (logical("int", "date"), [logical("int", "date")], 1),
    (
        logical("long", "timestamp-micros"),
        [logical("long", f"timestamp-{unit}") for unit in ("micros", "millis", "nanos")],
        0,
    ),
    (
        logical("long", "timestamp-millis"),
        [logical("long", f"timestamp-{unit}") for unit in ("millis", "micros")],
        0,
    ),
    (
        logical("long", "local-timestamp-micros"),
        [logical("long", f"local-timestamp-{unit}") for unit in ("micros", "millis")],
        0,
    ),
    (logical("long", "time-micros"), [logical("int", "time-millis"), logical("long", "time-micros")], 0),
    (decimal(10, 2), [decimal(10, 2), decimal(6, 1), decimal(12, 4)], "\x01"),
    (decimal(30, 3, 16), [decimal(30, 3, 16), decimal(31, 1, 16)], "\0" * 16),
    (enum("CASH", "CARD"), [enum("CARD", "CASH"), enum("CASH", "UPI")], "CASH"),
    (enum("CASH", "CARD", default="CARD"), [enum("UPI", "CASH"), enum("CASH", "CARD")], "CASH"),
]
EXTRA = [
    "bytes",
    "float",
    "string",
    ["null", "int", "string"],
    {"type": "fixed", "name": "F", "size": 3},
    {"type": "record", "name": "Rest", "fields": [{"name": "more", "type": ["null", "Rest"]}]},
    {"type": "array", "items": "int"},
]
"""What a writer may have that the reader has not."""


class Messages(DataMaker):
    """Data with values such as there are; now and then with any."""

    def encoded(self, found: Type, depth: int) -> bytes:
        whole = self.schema.resolve(found)
        kind = None if whole.kind == "union" else logical_type(whole)
        if kind is None or kind.name == "uuid" or self.random.random() < 0.005:
            return super().encoded(found, depth)
        if kind.name == "decimal":
            most = 10 ** self.random.choice([1, 2, 5, kind.precision or 1]) - 1
            value = self.random.randint(-most, most) // 100 * self.random.choice([1, 100])
            size = getattr(whole, "size", None)
            raw = value.to_bytes(size or value.bit_length() // 8 + 1, "big", signed=True)
            return raw if size else number(len(raw)) + raw
        moment = self.random.choice([0, 5, 1_777_118_400_123_456]) + self.random.randrange(DAY)
        if kind.name == "date":
            return number(moment // DAY)
        if kind.name.startswith("time-"):
            moment %= DAY
        if kind.name.endswith("millis"):
            moment //= 1000
        elif kind.name.endswith("nanos"):
            moment = moment * 1000 + 7
        return number(moment)


def nullable(random: Random, kind: Any, often: float) -> Any:
    return random.choice([["null", kind], [kind, "null"]]) if random.random() < often else kind


def schemas(seed: int, writers: int) -> tuple[str, list[str]]:
    """A reader's schema, and writers that have mostly what it reads."""
    random = Random(seed)
    chosen, used = [], set()
    for name in random.sample(_NAMES, random.randint(1, 6)):
        kind, sources, default = copy.deepcopy(random.choice(READ_AS))
        names = {each["name"] for each in [kind, *sources] if isinstance(each, dict) and "name" in each}
        if not names & used:
            used |= names
            chosen.append((name, kind, sources, default))
    inner = {name for name, *_ in chosen if random.random() < 0.3}
    """They are in a record within."""
    reader = []
    for name, kind, _, default in chosen:
        wrapped = nullable(random, kind, 0.4)
        first = wrapped[0] if isinstance(wrapped, list) else wrapped
        given = None if first == "null" else default
        said = {"default": given} if random.random() < 0.8 else {}
        reader.append({"name": name, "type": wrapped, "aliases": [f"{name}_old"], **said})
    return _record(reader, inner, random, plain=True), [
        _record(
            [
                {"name": random.choice([name, name, f"{name}_old"]), "type": kind}
                for name, _, sources, _ in random.sample(chosen, len(chosen))
                if random.random() < 0.85
                for kind in [nullable(random, random.choice(sources), 0.3)]
            ],
            inner,
            random,
            plain=False,
        )
        for _ in range(writers)
    ]


def _record(fields: list[dict[str, Any]], inner: set[str], random: Random, plain: bool) -> str:
    within = [field for field in fields if field["name"].removesuffix("_old") in inner]
    outer = [field for field in fields if field not in within]
    if within:
        kind = {"type": "record", "name": "Inner", "fields": within}
        outer.append({"name": "inner", "type": nullable(random, kind, 0.4)})
    if not plain and random.random() < 0.4:
        outer.insert(random.randrange(len(outer) + 1), {"name": "extra", "type": random.choice(EXTRA)})
    if not outer:
        outer.append({"name": "nothing", "type": "null"})
    return json.dumps({"type": "record", "name": "Payment", "fields": outer})


def messages(writer: str, seed: int, count: int, damaged: float) -> list[bytes]:
    """Messages of a writer, without framing; some have a byte that was changed, or are cut off, or have more."""
    schema: Schema = parse_schema(writer)
    maker, random = Messages(schema, seed), Random(seed)
    found = []
    for _ in range(count):
        raw = bytearray(maker.datum())
        if raw and random.random() < damaged:
            match random.randrange(4):
                case 0:
                    del raw[random.randrange(len(raw)) :]
                case 1:
                    raw += random.randbytes(2)
                case _:
                    byte = random.choice([0, 1, 2, 3, 0x7F, 0x80, 0xFF, random.randrange(256)])
                    raw[random.randrange(len(raw))] = byte
        found.append(bytes(raw))
    return found
