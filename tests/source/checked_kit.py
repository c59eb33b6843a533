"""Random schemas of JSON, and records that follow them more or less."""

from __future__ import annotations

from random import Random
from typing import Any

COLUMNS = {"at": "timestamp", "shop": "string", "paise": "bigint", "few": "int", "fee": "decimal(12,2)"}
COLUMNS |= {"share": "double", "ok": "boolean"}
_NUMBERS = (
    "0",
    "-0",
    "1",
    "5",
    "7",
    "10",
    "-3",
    "2147483648",
    "9223372036854775808",
    "1.0",
    "0.1",
    "0.5",
    "1e1",
)
_NUMBERS += (
    "0.10",
    "12.34",
    "0.001",
    "5.0000000000000000001",
    "0.1000000000000000055511151231257827",
    "1e-400",
)
_NUMBERS += (
    "-0.0",
    "4.999999999999999999",
    "9007199254740993",
    "0.30000000000000004",
    "1e400",
    "100000000000.25",
)
_TEXTS = (
    "",
    "a",
    "chai",
    "ein längerer Text",
    "é",
    "\\u00e9",
    "null",
    "CASH",
    "CARD",
    "2026-01-05T14:00:00Z",
)
_OTHERS = ("null", "true", "false", "[]", "[1]", "{}", '{"a":1}')


def random_schema(rng: Random) -> dict[str, Any]:
    def number_rules() -> dict[str, Any]:
        rules: dict[str, Any] = {}
        for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
            if rng.random() < 0.25:
                low = name.lower().endswith("minimum")
                rules[name] = rng.choice([0, -5, 0.1, 0.3] if low else [10, 5, 10**9, 0.5, 12.34])
        if rng.random() < 0.2:
            rules["multipleOf"] = rng.choice([1, 0.01, 0.001, 5])
        return rules

    def text_rules() -> dict[str, Any]:
        rules = {"minLength": rng.choice([0, 1])} if rng.random() < 0.3 else {}
        return {**rules, **({"maxLength": rng.choice([1, 4, 40])} if rng.random() < 0.3 else {})}

    makers = {
        "at": lambda: {"type": "string", **text_rules()},
        "shop": lambda: rng.choice([{"type": "string", **text_rules()}, {"enum": ["CASH", "CARD", 1]}]),
        "paise": lambda: rng.choice([{"type": "integer", **number_rules()}, {"enum": [0, 5.0, "5"]}]),
        "few": lambda: {"type": "integer", **number_rules()},
        "fee": lambda: {"type": "number", **number_rules()},
        "share": lambda: {"type": "number", **number_rules()},
        "ok": lambda: rng.choice([{"type": "boolean"}, {"const": True}]),
        "extra": lambda: rng.choice(
            [{"type": "string", **text_rules()}, {"type": "integer", **number_rules()}, {}, {"type": "array"}]
        ),
    }
    chosen = rng.sample(sorted(makers), rng.randint(1, len(makers)))
    properties = {name: makers[name]() for name in chosen}
    for rules in properties.values():
        if isinstance(rules.get("type"), str) and rng.random() < 0.3:
            rules["type"] = [rules["type"], "null"]
    required = [name for name in chosen if rng.random() < 0.4]
    closed = {"additionalProperties": False} if rng.random() < 0.5 else {}
    return {"type": "object", "properties": properties, "required": required, **closed}


def random_record(rng: Random) -> str:
    """As it is written: its numbers in ways that readers see differently."""
    kinds = {"at": "text", "shop": "text", "paise": "number", "few": "number", "fee": "number"}
    kinds |= {"share": "number", "ok": "other", "extra": rng.choice(["text", "number", "other"])}
    said = []
    for name, kind in kinds.items():
        if rng.random() < 0.3:
            continue
        if name == "at" and rng.random() < 0.9:
            value = '"2026-01-05T14:00:00Z"'
        elif rng.random() < 0.03:
            value = rng.choice(_OTHERS)
        elif kind == "number":
            value = rng.choice(_NUMBERS[:7]) if rng.random() < 0.6 else rng.choice(_NUMBERS)
        else:
            value = (
                f'"{rng.choice(_TEXTS)}"' if kind == "text" else rng.choice(["true", "false", "true", "null"])
            )
        said.append(f'"{name}":{value}')
    return "{" + ",".join(said) + "}"
