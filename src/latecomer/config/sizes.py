"""Sizes in bytes: parsing, printing."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from latecomer.model.counting import counted

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_WRITTEN = re.compile(r"([0-9]{1,12}) ?(KiB|MiB|GiB|TiB)")


def parse_size(value: object) -> int:
    """Bytes from a size as people write it.

    >>> parse_size("16MiB"), parse_size("1 KiB")
    (16777216, 1024)
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError("not a size; write one such as 512KiB, 16MiB or 32GiB")
    return int(match[1]) * _UNITS[match[2]]


def format_size(size: int) -> str:
    """A size, exact if it can be written in a unit, else in bytes.

    >>> format_size(16777216), format_size(1025)
    ('16MiB', '1025 bytes')
    """
    for unit, worth in reversed(_UNITS.items()):
        if size and size % worth == 0:
            return f"{size // worth}{unit}"
    return f"{size} bytes"


def size_in_words(size: int) -> str:
    """A measured size for people, in powers of 1,000. `format_size` writes one that can be parsed.

    >>> size_in_words(700), size_in_words(1_500_000), size_in_words(999_999)
    ('700 bytes', '1.5 MB', '1.0 MB')
    """
    if size < 1000:
        return counted(size, "byte")
    amount, units = size / 1000, ["kB", "MB", "GB", "TB"]
    while amount >= 999.95 and len(units) > 1:
        amount, units = amount / 1000, units[1:]
    return f"{amount:,.1f} {units[0]}"


def _between(least: int, most: int) -> BeforeValidator:
    def checked(value: object) -> int:
        size = parse_size(value)
        if not least <= size <= most:
            raise ValueError(
                f"is out of range; write a size from {format_size(least)} to {format_size(most)}"
            )
        return size

    return BeforeValidator(checked)


_SCHEMA: dict[str, Any] = {
    "anyOf": [{"type": "string", "pattern": r"^[0-9]{1,12} ?(KiB|MiB|GiB|TiB)$"}, {"type": "integer"}],
    "examples": ["16MiB", "32GiB"],
}
LineSize = Annotated[int, _between(1 << 10, 1 << 30), WithJsonSchema(_SCHEMA)]
"""At most 1 GiB: Spark holds a line in one Java array, which ends at 2 GiB."""
FileSize = Annotated[int, _between(1 << 10, 1 << 50), WithJsonSchema(_SCHEMA)]
