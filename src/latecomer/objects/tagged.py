"""A small file that several writers may want to replace."""

from __future__ import annotations

from typing import NamedTuple


class Tagged(NamedTuple):
    """The content of a file, and a tag that every write of another content changes."""

    content: bytes
    tag: str
