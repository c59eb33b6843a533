"""Hides secrets that somebody wrote into a path, a URL or a setting."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "***"
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_URL_IN_TEXT = re.compile(_URL.pattern + r"[^\s'\"<>]+")
_TO_ENCODE = frozenset("/@:?#")
_SETTINGS = re.compile(r"([?&]([^=&]*)=)[^&]*")
_HARMLESS = frozenset({"user", "host", "port", "dbname", "sslmode", "connect_timeout", "application_name"})
_SECRET = r"\w*(?:passw(?:or)?d|passphrase|pwd|secret|token|access_?key|api_?key|credential)s?"  # noqa: S105
_ASSIGNED = re.compile(rf"(?i)\b({_SECRET}['\"]?\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^\s&;,'\"]+)")
_NAME = re.compile(rf"(?i){_SECRET}")
_CONCEALED: set[str] = set()


def conceal(secret: str) -> str:
    """Hide a secret in every sentence from now on, and return it. One of three characters or fewer is not hidden: words
    would contain it by chance."""
    if len(secret) > 3:
        _CONCEALED.update((secret, repr(secret)[1:-1]))
    return secret


def concealed_in(texts: Iterable[str]) -> list[str]:
    """The hidden secrets in some texts, for another process that has to hide them too."""
    every = list(texts)
    # A copy: other threads hide secrets meanwhile.
    return sorted(secret for secret in tuple(_CONCEALED) if any(secret in text for text in every))


def redacted(written: str) -> str:
    """A text that may be a URL or a connection string, without its secrets.

    >>> redacted("postgresql://ana:secret@db/books?password=x&sslmode=require")
    'postgresql://ana:***@db/books?password=***&sslmode=require'
    >>> redacted("host=db user=ana password='s3 cret' dbname=books")
    'host=db user=ana password=*** dbname=books'
    """
    scheme = _URL.match(written)
    if scheme is None:
        return without_settings(written)
    rest = _SETTINGS.sub(_shown_setting, written[scheme.end() :])
    # Up to the last @: a password may contain one that is not encoded.
    user, at, place = rest.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{scheme[0]}{name}{colon}{HIDDEN if colon else ''}{at}{place}"


def is_torn(url: str) -> bool:
    """Whether a password in a URL has characters that must be encoded. A library would take a part of such a password
    for a host or a port, and quote it in an error.

    >>> is_torn("postgresql://ana:s3/cret@db/books"), is_torn("postgresql://ana:s3%2Fcret@db/books")
    (True, False)
    """
    user, at, _ = _URL.sub("", url, count=1).rpartition("@")
    return bool(at) and not _TO_ENCODE.isdisjoint(user.partition(":")[2])


def without_secrets(text: str) -> str:
    """A sentence of another program without its secrets, such as passwords in URLs.

    >>> without_secrets("no answer from postgresql://ana:secret@db/books, token=abc")
    'no answer from postgresql://ana:***@db/books, token=***'
    """
    for secret in sorted(_CONCEALED, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return without_settings(_URL_IN_TEXT.sub(lambda found: redacted(found[0]), text))


def without_settings(text: str) -> str:
    """A text in which the values of secret settings are hidden.

    >>> without_settings("{'path': 'x', 'password': 'y'}")
    "{'path': 'x', 'password': ***}"
    """
    return _ASSIGNED.sub(rf"\1{HIDDEN}", text)


def is_secret(name: str) -> bool:
    """Whether a setting of this name would hold a secret.

    >>> is_secret("sinks.0.password"), is_secret("outputs.totals.where")
    (True, False)
    """
    return _NAME.fullmatch(name.rpartition(".")[2]) is not None


def _shown_setting(setting: re.Match[str]) -> str:
    return setting[0] if setting[2].lower() in _HARMLESS else f"{setting[1]}{HIDDEN}"
