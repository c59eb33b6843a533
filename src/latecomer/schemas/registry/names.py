"""Reads subjects, versions and ids from requests; and the naming rules of subjects."""

from __future__ import annotations

import glob
import re
import unicodedata
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from latecomer.errors import shortened
from latecomer.schemas.registry.records import Body
from latecomer.schemas.registry.refusals import Refused, invalid_subject, invalid_version, schema_not_found

LONGEST_SUBJECT = 500
LARGEST = 2**31 - 1
"""The largest id and version: an id has four bytes in front of each record."""
LATEST = -1
DEFAULT_CONTEXT = ":.:"
"""The prefix that clients may write before a subject. There is no other context."""
_RESERVED = ("__GLOBAL", "__EMPTY")
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, invisible characters, surrogates and line separators."""
_NUMBER = re.compile(r"[0-9]{1,10}")


def subject_of(written: str) -> str:
    """The name of a subject. Refused if it is not allowed.

    >>> subject_of("orders-value"), subject_of(":.:orders-value")
    ('orders-value', 'orders-value')
    """
    written = written.removeprefix(DEFAULT_CONTEXT)
    if problem := _problem(written):
        raise invalid_subject(f"the subject {_shown(written)} {problem}")
    return written


def _problem(name: str) -> str | None:
    if not name.strip():
        return "is empty; give it a name such as orders-value"
    if len(name) > LONGEST_SUBJECT:
        return f"has {len(name)} characters; write at most {LONGEST_SUBJECT}"
    if any(unicodedata.category(each) in _UNSEEN for each in name):
        return "has a control character or an invisible one; leave it out"
    if name in (".", ".."):
        return "is a path step, which proxies may resolve; give it another name"
    if name.startswith(":."):
        return "names a context; contexts are not supported, so leave :.NAME: out"
    if name in _RESERVED:
        return "is reserved; give it another name"
    return None


def _shown(name: str) -> str:
    return shortened(ascii(name), 80)


def version_of(written: str) -> int:
    """A version as it is written in a path; LATEST for the latest.

    >>> version_of("3"), version_of("latest"), version_of("-1")
    (3, -1, -1)
    """
    if written in ("latest", "-1"):
        return LATEST
    if not _NUMBER.fullmatch(written) or not 1 <= int(written) <= LARGEST:
        raise invalid_version(written)
    return int(written)


def id_of(written: str) -> int:
    """An id as it is written in a path. Text that is no id is an unknown schema."""
    if not _NUMBER.fullmatch(written) or not 1 <= int(written) <= LARGEST:
        raise schema_not_found(_shown(written))
    return int(written)


def guid_of(written: str) -> UUID:
    """A GUID as it is written in a path. Text that is no GUID is an unknown schema."""
    try:
        return UUID(written)
    except ValueError:
        raise schema_not_found(_shown(written)) from None


# Naming rules


class NamingRule(Body):
    """A pattern for subjects, and their owner. In a pattern `*` stands for any text."""

    subjects: Annotated[str, Field(min_length=1, max_length=500)]
    owner: Annotated[str | None, Field(min_length=1, max_length=300)] = None


class Naming(Body):
    """The naming rules, as they are sent and stored. If others are refused, a new subject must fit a rule."""

    rules: Annotated[list[NamingRule], Field(max_length=1000)]
    others: Literal["allow", "refuse"] = "allow"

    def body(self) -> dict[str, Any]:
        return self.model_dump(exclude_none=True)

    def rule_for(self, subject: str) -> NamingRule | None:
        """The first rule that a subject fits."""
        return next((each for each in self.rules if fits(subject, each.subjects)), None)

    def problem(self, subject: str) -> Refused | None:
        """Why a new subject may not have this name; None if it may."""
        if self.others == "allow" or self.rule_for(subject) is not None:
            return None
        known = ", ".join(each.subjects for each in self.rules[:10]) or "none yet"
        return invalid_subject(
            f"the subject {_shown(subject)} fits no naming rule; call it so that it fits one of: {known}"
        )


def fits(name: str, pattern: str) -> bool:
    """Whether a name fits a pattern, in which `*` stands for any text.

    >>> fits("payments.orders-value", "payments.*-value"), fits("payments.orders", "orders*")
    (True, False)
    """
    return fnmatchcase(name, "*".join(map(glob.escape, pattern.split("*"))))


def id_in(header: bytes) -> int | None:
    """The id in a header of a message: a decimal number, four bytes, or the five bytes of the framing; else None. Four
    digits are a decimal number: no id is as large as their bytes would be.

    >>> id_in(b"1234"), id_in(bytes([0, 0, 1, 2])), id_in(bytes([0, 0, 0, 0, 7])), id_in(b"v2"), id_in(b"0")
    (1234, 258, 7, None, None)
    """
    if header.isdigit() and len(header) <= 10:
        number = int(header)
        return number if 1 <= number <= LARGEST else None
    framed = len(header) == 5 and header[0] == 0
    return int.from_bytes(header[-4:], "big") if framed or len(header) == 4 else None
