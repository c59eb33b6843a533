"""The id of an event: the text of one column, or of several together."""

from __future__ import annotations

from collections.abc import Sequence

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
"""Replaced in this order: the backslash must come first."""
BEGIN, BETWEEN, END = '["', '","', '"]'


def event_id(parts: Sequence[str | None]) -> str | None:
    """The id from the texts of columns: the text of a single column, or a JSON array of several, so that different
    columns give different ids. An event that lacks one of them has no id.

    >>> event_id(["a"]), event_id(["a", "bc"]), event_id(["ab", "c"]), event_id(["a", None])
    ('a', '["a","bc"]', '["ab","c"]', None)
    """
    texts = [text for text in parts if text is not None]
    if not texts or len(texts) < len(parts):
        return None
    return texts[0] if len(texts) == 1 else BEGIN + BETWEEN.join(map(_escaped, texts)) + END


def _escaped(text: str) -> str:
    for character, escaped in ESCAPES.items():
        text = text.replace(character, escaped)
    return text
