"""A small file that several writers may want to replace."""

from __future__ import annotations

from typing import NamedTuple


class Tagged(NamedTuple):
    """The content of a file, and a tag. Writing another content changes the tag."""

    content: bytes
    tag: str
