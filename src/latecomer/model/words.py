"""Words: lists of them, a noun with its article, keys in words, and names in backticks, as SQL has them."""

from __future__ import annotations

from collections.abc import Mapping

QUOTED = r"`(?:[^`]|``)+`"
"""The pattern of a name in backticks."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for long lists of names."""
    return tuple(text.split())


def with_article(noun: str) -> str:
    """
    >>> with_article("array"), with_article("string")
    ('an array', 'a string')
    """
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"


def key_in_words(key: Mapping[str, str | None]) -> str:
    """
    >>> key_in_words({"merchant": "m1", "column": None})
    'merchant=m1, column=null'
    """
    return ", ".join(f"{column}={'null' if value is None else value}" for column, value in key.items())


def in_backticks(name: str) -> str:
    """
    >>> in_backticks("net `amount`")
    '`net ``amount```'
    """
    return "`" + name.replace("`", "``") + "`"


def without_backticks(quoted: str) -> str:
    """
    >>> without_backticks("`net ``amount```")
    'net `amount`'
    """
    return quoted[1:-1].replace("``", "`")
