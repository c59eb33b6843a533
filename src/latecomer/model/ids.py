"""What identifies an event: the text of one column, or of several together."""

from __future__ import annotations

from collections.abc import Sequence

ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
"""In this order; the first makes room for the others."""
BEGIN, BETWEEN, END = '["', '","', '"]'


def event_id(parts: Sequence[str | None]) -> str | None:
    """The id that the texts of some columns make: of one its own, of several a JSON array, so that no two are
    confused. An event that lacks one of them has no id.

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
