"""Columns of Parquet files that Spark does not hand over as they are meant."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.store.sql import quoted


def from_nanos(column: str, kind: str) -> str:
    """A time, from nanoseconds: cut to the microsecond that it lies in."""
    name = quoted(column)
    return f"cast(timestamp_micros(({name} - pmod({name}, 1000L)) div 1000L) as {kind})"


def not_text(columns: Mapping[str, str]) -> str:
    """The row as JSON, with the bytes that it has, where a text of it is not UTF-8; else null."""
    texts = [name for name, kind in columns.items() if kind == "string"]
    if not texts:
        return "cast(null as string)"
    valid = " and ".join(f"is_valid_utf8({quoted(name)})" for name in texts)
    # In ISO-8859-1 every byte is a character, so no byte is lost on the way through JSON.
    fields = ", ".join(
        f"decode(cast({quoted(name)} as binary), 'ISO-8859-1')"
        f" as {quoted(name.encode().decode('iso-8859-1'))}"
        if kind == "string"
        else f"{quoted(name)} as {quoted(name.encode().decode('iso-8859-1'))}"
        for name, kind in columns.items()
    )
    whole = f"to_json(struct({fields}), map('ignoreNullFields', 'false'))"
    return f"case when not coalesce({valid}, true) then cast(encode({whole}, 'ISO-8859-1') as string) end"
