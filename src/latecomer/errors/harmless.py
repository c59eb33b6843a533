"""Text from elsewhere is shown, never obeyed.

Events, file names, columns, keys and stores bring text of any bytes. Terminals and notebooks take some characters for
commands: move the cursor, change the title, write the line from right to left.
"""

from __future__ import annotations

import re

_CONTROLS = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
"""C0 except tab and newline, delete, and C1, which begins a command with one character."""
_LINES = r"\u2028\u2029"
_DIRECTIONS = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""Changes of the writing direction, which make a text look like another."""

COMMANDS = re.compile(f"[{_CONTROLS}{_LINES}{_DIRECTIONS}]")
_COMMANDS_IN_A_LINE = re.compile(rf"[\t\n{_CONTROLS}{_LINES}{_DIRECTIONS}]")


def harmless(text: str, *, lines: bool = False) -> str:
    """Text for one line of a table or a sentence. With `lines`, newlines and tabs stay.

    >>> harmless("a\\nb \\x1b[2J"), harmless("a\\nb \\x1b[2J", lines=True)
    ('a\\\\nb \\\\x1b[2J', 'a\\nb \\\\x1b[2J')
    """
    commands = COMMANDS if lines else _COMMANDS_IN_A_LINE
    return commands.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
