"""`latecomer dead-letters`: what never became an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, choose_zone, open_reader

if TYPE_CHECKING:
    import pyarrow as pa

BYTES = "raw_bytes"


def dead_letters(file: File, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None) -> None:
    """Show the rows that could not be read as events, and why."""
    from latecomer.cli.render import show

    choose_zone(zone, file)
    rows = open_reader(file).dead_letters()
    show(with_bytes_shown(rows, form), form, "there are no dead letters", limit)


def with_bytes_shown(rows: pa.Table, form: Format) -> pa.Table:
    """Bytes that are not text as text with escapes; in a table for people in the place of the raw text."""
    import pyarrow as pa

    if BYTES not in rows.schema.names:  # a store of an earlier version
        return rows
    place = rows.schema.get_field_index(BYTES)
    shown = [None if raw is None else escaped(raw) for raw in rows[BYTES].to_pylist()]
    if form is not Format.TABLE:
        return rows.set_column(place, BYTES, pa.array(shown, pa.string()))
    texts = [text if raw is None else raw for text, raw in zip(rows["raw"].to_pylist(), shown, strict=True)]
    people = rows.set_column(rows.schema.get_field_index("raw"), "raw", pa.array(texts, pa.string()))
    return people.drop_columns([BYTES])


def escaped(raw: bytes) -> str:
    r"""Bytes as text: what is UTF-8 as it is, any other byte as \xNN, a backslash as two.

    >>> print(escaped(b"caf\xe9 \\"))
    caf\xe9 \\
    """
    return raw.replace(b"\\", b"\\\\").decode(errors="backslashreplace")
