"""Checks the parameters of a request: only a few are allowed, they are short, and each has its type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from urllib.parse import parse_qsl

from latecomer.errors import LatecomerError, shortened
from latecomer.model.durations import to_moment
from latecomer.model.verdicts import Fate
from latecomer.model.zoned import read

MOST_PARAMETERS = 8
MOST_ROWS = 200
FURTHEST = 10_000


class WrongRequest(LatecomerError):
    """A request that cannot be answered as it is."""

    def __init__(self, field: str, value: str, reason: str, fix: str) -> None:
        super().__init__(f"{field} {shortened(value, 80)!r} {reason}; {fix}")


@dataclass(frozen=True)
class Query:
    """The parameters of a request, by name."""

    given: Mapping[str, str]

    @classmethod
    def of(cls, text: str, known: frozenset[str]) -> Query:
        """Parse the parameters of a request: each has to be one that the route knows, and may be there once."""
        try:
            pairs = parse_qsl(
                text,
                keep_blank_values=True,
                strict_parsing=bool(text),
                errors="strict",
                max_num_fields=MOST_PARAMETERS,
            )
        except ValueError:
            fix = f"write at most {MOST_PARAMETERS} parameters as name=value"
            raise WrongRequest("query", text, "cannot be read", fix) from None
        given: dict[str, str] = {}
        for name, value in pairs:
            if name not in known or name in given:
                reason = "is given twice" if name in given else "is not known here"
                raise WrongRequest("parameter", name, reason, f"write {', '.join(sorted(known)) or 'none'}")
            if "\0" in value:
                raise WrongRequest(name, value, "holds a NUL", "leave it out")
            given[name] = value
        return cls(given)

    def output(self, outputs: Mapping[str, object]) -> str:
        name = self.given.get("output", next(iter(outputs), ""))
        if name not in outputs:
            raise WrongRequest(
                "output", name, "is none of this pipeline", f"write one of {', '.join(outputs)}"
            )
        return name

    def window(self) -> datetime | None:
        return self.moment("window")

    def moment(self, name: str) -> datetime | None:
        text = self.given.get(name)
        if text is None:
            return None
        try:
            return to_moment(read(text))
        except (ValueError, OverflowError):
            fix = "write ISO-8601 such as 2026-04-25T14:00:00Z"
            raise WrongRequest(name, text, "is not a moment", fix) from None

    def key(self) -> dict[str, str | None]:
        text = self.given.get("key")
        if text is None:
            return {}
        fix = 'write an object of texts such as {"merchant": "m1"}'
        try:
            key = json.loads(text)
        except (ValueError, RecursionError):
            raise WrongRequest("key", text, "is not JSON", fix) from None
        if not isinstance(key, dict) or not all(
            value is None or isinstance(value, str) for value in key.values()
        ):
            raise WrongRequest("key", text, "is not a key", fix)
        return key

    def number(self, name: str, usual: int, most: int) -> int:
        text = self.given.get(name)
        if text is None:
            return usual
        if not (text.isascii() and text.isdecimal() and len(text) <= 18) or int(text) > most:
            raise WrongRequest(name, text, "is not such a number", f"write a number from 0 to {most}")
        return int(text)

    def batch(self) -> int | None:
        return self.number("batch", 0, 2**53) if "batch" in self.given else None

    def day(self) -> date | None:
        text = self.given.get("day")
        if text is None:
            return None
        try:
            day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).date()
            _ = day + timedelta(days=1)  # the day ends there
        except (ValueError, OverflowError):
            raise WrongRequest("day", text, "is not a day", "write it such as 2026-04-25") from None
        return day

    def fate(self) -> Fate:
        text = self.given.get("fate", "")
        if text not in list(Fate):
            raise WrongRequest("fate", text, "is not a fate", f"write one of {', '.join(Fate)}")
        return Fate(text)
