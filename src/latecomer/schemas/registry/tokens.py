"""Tokens and what they allow. A token is random; only its hash is stored.

A file has one token a line: name, scope and hash. Lines that begin with # are comments.

    ana-laptop write sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import threading
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from latecomer.errors import RegistryError
from latecomer.objects.small_files import small_text

LOG = logging.getLogger(__name__)
ENVIRONMENT = "LATECOMER_REGISTRY_TOKENS"
MOST_TOKENS = 10_000
_NAME = re.compile(r"[A-Za-z0-9._@-]{1,100}")
_HASH = re.compile(r"sha256:([0-9a-f]{64})")


class Scope(IntEnum):
    """What a token allows. Each scope includes the ones before it."""

    READ = 1
    WRITE = 2
    ADMIN = 3

    @classmethod
    def of(cls, written: str) -> Scope:
        if written.upper() not in cls.__members__:
            raise RegistryError(f"{written[:40]!r} is no scope; write read, write or admin")
        return cls[written.upper()]

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class StoredToken:
    """A token as it is stored, without its secret."""

    name: str
    scope: Scope
    digest: bytes = field(repr=False)

    @property
    def line(self) -> str:
        """Its line in a file of tokens."""
        return f"{self.name} {self.scope.word} sha256:{self.digest.hex()}"


def new_token(name: str, scope: Scope) -> tuple[str, StoredToken]:
    """A new secret, which is shown once, and the token to store."""
    if not _NAME.fullmatch(name):
        raise RegistryError(
            f"{name[:40]!r} cannot be a token's name; write letters, digits, dots, @, - or _, at most 100"
        )
    secret = f"lcr_{secrets.token_urlsafe(32)}"
    return secret, StoredToken(name, scope, _digest(secret))


def add_token(path: Path, token: StoredToken) -> None:
    """Add a token to a file. A new file can be read by its user alone."""
    try:
        before = _text_of(path) if path.exists() else ""
        if any(each.name == token.name for each in read_tokens(before, str(path), empty=True)):
            raise RegistryError(f"{path} has a token called {token.name}; choose another name")
        number = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise RegistryError(f"{path} cannot be written ({error.strerror}); correct --tokens") from None
    first = "\n" if before and not before.endswith("\n") else ""
    with os.fdopen(number, "a", encoding="utf-8") as file:
        file.write(f"{first}{token.line}\n")


def read_tokens(text: str, place: str, *, empty: bool = False) -> tuple[StoredToken, ...]:
    """The tokens in a text. Errors name the place, and never show the text."""
    tokens: dict[str, StoredToken] = {}
    for number, line in enumerate(re.split(r"[\n;]", text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token = _read_line(line, f"{place}, line {number}")
        if token.name in tokens:
            raise RegistryError(
                f"{place}, line {number}: the name {token.name} is there already; choose another"
            )
        tokens[token.name] = token
    if not tokens and not empty:
        raise RegistryError(f"{place}: there is no token; make one: latecomer registry token new --name NAME")
    if len(tokens) > MOST_TOKENS:
        raise RegistryError(
            f"{place}: there are more than {MOST_TOKENS} tokens; remove those that nobody uses"
        )
    return tuple(tokens.values())


def _read_line(line: str, place: str) -> StoredToken:
    parts = line.split()
    digest = _HASH.fullmatch(parts[-1])
    if len(parts) != 3 or digest is None or not _NAME.fullmatch(parts[0]):
        raise RegistryError(
            f"{place}: this is no token; write NAME SCOPE sha256:HASH, as latecomer registry token new prints it"
        )
    if parts[1].upper() not in Scope.__members__:
        raise RegistryError(f"{place}: the scope is not valid; write read, write or admin")
    return StoredToken(parts[0], Scope.of(parts[1]), bytes.fromhex(digest[1]))


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class Tokens:
    """The valid tokens. Their file is read again when it changes, so that tokens can be revoked."""

    def __init__(self, tokens: tuple[StoredToken, ...], path: Path | None = None) -> None:
        self._tokens, self._path = tokens, path
        self._lock = threading.Lock()
        self._seen = None if path is None else _stamp(path)

    @classmethod
    def of_file(cls, path: Path) -> Tokens:
        return cls(_tokens_in(path), path)

    def token_of(self, secret: str) -> StoredToken | None:
        """The token of a secret. The time this takes reveals nothing about the tokens."""
        self._read_again()
        digest, found = _digest(secret), None
        for token in self._tokens:
            if hmac.compare_digest(token.digest, digest):
                found = token
        return found

    def _read_again(self) -> None:
        if self._path is None:
            return
        with self._lock:
            now = _stamp(self._path)
            if now == self._seen:
                return
            self._seen = now
            try:
                self._tokens = _tokens_in(self._path)
            except RegistryError as error:
                self._tokens = ()
                LOG.warning("nobody is let in until the tokens can be read again: %s", error)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_ino, state.st_mtime_ns, state.st_size


def _tokens_in(path: Path) -> tuple[StoredToken, ...]:
    return read_tokens(_text_of(path), str(path))


def _text_of(path: Path) -> str:
    """The text of a file of tokens to which nobody else may add one."""
    try:
        mode = path.stat().st_mode
        text = small_text(path)
    except OSError as error:
        raise RegistryError(
            f"{path}: the tokens cannot be read ({error.strerror}); correct --tokens"
        ) from None
    if stat.S_IMODE(mode) & 0o022:
        raise RegistryError(f"{path}: others may write to this file, and add tokens; run chmod go-w {path}")
    return text


def tokens_of(path: Path | None) -> Tokens | None:
    """The tokens of a file, else of the environment. None lets everybody in."""
    if path is not None:
        return Tokens.of_file(path)
    text = os.environ.get(ENVIRONMENT)
    return None if text is None else Tokens(read_tokens(text, ENVIRONMENT))
