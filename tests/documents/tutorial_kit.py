"""The commands of a page, with what they print there."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """What stands after a prompt, and what is printed below it."""

    text: str
    expected: str


def commands(page: str) -> list[Command]:
    """The commands of all console blocks of a page, in order. A command that ends in <<'EOF' has its lines with it.

    >>> commands("```console\\n$ cat > a <<'EOF'\\nb\\nEOF\\n$ echo c\\nc\\n```\\n")
    [Command(text="cat > a <<'EOF'\\nb\\nEOF", expected=''), Command(text='echo c', expected='c\\n')]
    """
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, _, rest = part.partition("\n")
            if first.endswith("<<'EOF'"):
                lines, _, rest = rest.partition("EOF\n")
                first = f"{first}\n{lines}EOF"
            found.append(Command(first, rest))
    return found


def matches(expected: str, printed: str) -> bool:
    """Whether what was printed is what the page has, where … stands for anything.

    >>> matches("a … d", "a b c d"), matches("a … d", "a b")
    (True, False)
    """
    pattern = ".*".join(re.escape(_lines(part)) for part in _lines(expected).split("…"))
    return re.fullmatch(pattern, _lines(printed), re.DOTALL) is not None


def _lines(text: str) -> str:
    """Blanks at the ends of lines say nothing, nor do empty lines at the end."""
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).rstrip("\n")
