"""Words: lists of them, and names in backticks, as SQL has them."""

from __future__ import annotations

QUOTED = r"`(?:[^`]|``)+`"
"""The pattern of a name in backticks."""


def words(text: str) -> tuple[str, ...]:
    """The words of a text, for long lists of names."""
    return tuple(text.split())


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
