"""A decoder keeps of records what the model says, and in the same letters."""

from __future__ import annotations

import random

from latecomer.model.unknown_fields import known_fields, members, unknown_members
from latecomer.source.decode.json_rows import JsonRecords
from latecomer.source.decode.private_columns import CORRUPT, KEPT

COLUMNS = {
    "id": "bigint",
    "a b": "string",
    "ü": "double",
    "pricing.base": "bigint",
    "pricing.tax.rate": "double",
}
NUMBERS = ["0", "-1", "1.10", "123456789012345678901234567890", "1e400", "0.1234567890123456789"]
TEXTS = ['"x"', '"\\u00e9\\""', '"},{\\"id\\":1"', '"é\\\\"', '""']
OWN = {"id": ["1", "null"], "a b": TEXTS, "ü": ["1.5", "null"]}


def value(source: random.Random, depth: int = 0) -> str:
    kind = source.randrange(6 if depth < 4 else 4)
    if kind == 4:
        return "[" + ",".join(value(source, depth + 1) for _ in range(source.randrange(3))) + "]"
    if kind == 5:
        fields = (f"{name(source)}:{value(source, depth + 1)}" for _ in range(source.randrange(3)))
        return "{" + " , ".join(fields) + "}"
    return source.choice([*NUMBERS, *TEXTS, "true", "null"])


def name(source: random.Random) -> str:
    return source.choice(['"tip"', '"id"', '"n\\u0041"', '"pricing"', '"a b"', '"ü"', '"{"', '""', '"rate"'])


def record(source: random.Random) -> str:
    fields = []
    for _ in range(source.randrange(8)):
        space, key = source.choice(["", " ", "\t"]), name(source)
        own = OWN.get(key.strip('"'))
        if own is not None:
            fields.append(f"{key}{space}:{space}{source.choice(own)}")
        elif key == '"pricing"':
            inner = source.choice(
                ['{"base":1}', '{"tax":{"rate":1.5}, "base":2}', '{"base":1,"tip":1.10}', "null"]
            )
            fields.append(f"{key}:{inner}")
        else:
            fields.append(f"{key}{space}:{value(source)}")
    return "{" + source.choice([",", ", ", " ,\t"]).join(fields) + "}"


def test_records_are_cut_as_the_model_does() -> None:
    source = random.Random(55)
    texts = [record(source) for _ in range(400)]
    deep = '{"id":1,"t":' + "[" * 9 + "]" * 9 + "}"
    known_and_deep = '{"id":1,"a b":' + "[" * 9 + "]" * 9 + "}"
    long = '{"id":1,"t":"' + "\\n" * 50_000 + '"}'
    texts += [deep, known_and_deep, long, "{}", "nothing"]
    rows = JsonRecords("keep").decode([text.encode() for text in texts], COLUMNS).to_pylist()
    found = [{**row, "text": text} for row, text in zip(rows, texts, strict=True)]

    known = known_fields(COLUMNS)
    assert [row["text"] for row in found if row[CORRUPT] is not None] == ["nothing"]
    for row in found[:-1]:
        text, kept = row["text"], row[KEPT]
        unknown = [text[each.begin : each.end] for each in unknown_members(text, known)]
        expected = "{" + ",".join(unknown) + "}" if unknown else None
        if text == known_and_deep:  # it cannot be cut, and has no field to keep
            assert kept in (None, text)
        elif kept == text:  # kept whole
            assert expected is not None
        else:
            assert (kept is None) == (expected is None)
            assert written(kept) == written(expected)
    assert sum(row[KEPT] not in (None, row["text"]) for row in found) > 200


def written(text: str | None) -> list[str]:
    return [] if text is None else [text[each.begin : each.end] for each in members(text)]


def test_numbers_and_objects_in_text_columns_stay_as_they_are_written() -> None:
    values = [
        "1.10",
        '"1.10"',
        '{"x" : 1.10}',
        '"{"',
        "[1.0e5, 2]",
        "5",
        '"a"',
        "null",
        "123456789.0123456789",
    ]
    texts = [f'{{"tip":{{"a b":0}}, "a b" : {value},"id":1}}' for value in values]
    rows = JsonRecords("keep").decode([text.encode() for text in texts], COLUMNS).to_pylist()
    as_texts = {'"1.10"': "1.10", '"{"': "{", '"a"': "a", "null": None}
    assert [row["a b"] for row in rows] == [as_texts.get(value, value) for value in values]
