"""What is wrong with a schema, and where."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from latecomer.errors import LatecomerError, shortened

Step = str | int
Path = tuple[Step, ...]
MOST_WORK = 300_000
"""Steps that one operation on schemas may take; this lasts seconds. Schemas written by people need some thousands."""
DEEPEST_TYPE = 100
Words = tuple[str, str]
"""What is wrong, and the fix."""
SHOWN = 80
"""Characters of a value or a name in a message."""
_MOST_LISTED = 10
_NOTHING = object()


class SchemaError(LatecomerError, ValueError):
    """A schema cannot be used: the place of the mistake, the value there, and the fix."""

    def __init__(self, path: Path, message: str, fix: str, value: object = _NOTHING) -> None:
        self.path, self.message, self.fix = path, message, fix
        self.value = None if value is _NOTHING else value
        shown = "" if value is _NOTHING else f" (value: {shown_value(value)})"
        super().__init__(f"{written_path(path)}: {message}{shown}; {fix}")


@dataclass(frozen=True)
class Incompatibility:
    """Why the reader's schema cannot read data of another schema.

    `path` leads through the reader's schema. In Avro it may also lead into a branch of the writer's union.
    """

    path: Path
    rule: str
    message: str
    fix: str

    def __str__(self) -> str:
        return f"{written_path(self.path)}: {self.message} ({self.rule}); {self.fix}"


class StepLimit:
    """Counts the steps of an operation. Too many are an error, so that no schema keeps a server busy."""

    def __init__(self, operation: str, most: int = MOST_WORK) -> None:
        self.operation, self.steps_left = operation, most

    def spend(self, steps: int = 1) -> None:
        self.steps_left -= steps
        if self.steps_left < 0:
            raise SchemaError((), f"takes too many steps to {self.operation}", "make the schema smaller")


def too_deep(path: Path) -> SchemaError:
    return SchemaError(
        path[:9], "is nested too deeply", f"nest at most {DEEPEST_TYPE} types, or refer to them by name"
    )


def written_path(path: Sequence[Step]) -> str:
    """A place in a schema as text.

    >>> written_path(("fields", 2, "type")), written_path(()), written_path((1, "items"))
    ('fields[2].type', 'the schema', '[1].items')
    """
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{shortened(step, SHOWN)}" for step in path)
    return text.removeprefix(".") or "the schema"


def listed(names: Sequence[str], last: str = ", ") -> str:
    """
    >>> listed(["a", "b", "c"], " or "), listed([])
    ('a, b or c', 'nothing')
    """
    if len(names) > _MOST_LISTED:
        return f"{', '.join(names[:_MOST_LISTED])} and {len(names) - _MOST_LISTED} more"
    return last.join(filter(None, (", ".join(names[:-1]), *names[-1:]))) or "nothing"


def _as_written(value: object) -> float:
    if isinstance(value, Decimal):
        return float(value)
    raise TypeError


def shown_value(value: object) -> str:
    """A value as JSON, cut short."""
    if isinstance(value, dict | list | tuple) and len(value) > SHOWN:
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    try:
        text = json.dumps(value, ensure_ascii=False, default=_as_written)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return shortened(text, SHOWN)
