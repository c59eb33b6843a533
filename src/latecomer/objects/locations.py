"""Locations: the names of folders and files, on this machine or at a URL, and how a URL is reached (ADR 0087).

Each process keeps the options by which a location is reached. A URL that is sent to another process takes its options
along. They hold no secrets.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePath, PurePosixPath
from typing import TypeVar

from pydantic import Field

from latecomer.model.base import Model

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""How a URL begins. One slash is enough, as in dbfs:/lake: a path keeps one slash of two."""


class Storage(Model):
    """How the URLs of a pipeline are reached."""

    region: str | None = None
    endpoint: str | None = Field(
        None, description="the address of a server that is not the provider's own, such as https://minio:9000"
    )
    allow_http: bool = Field(False, description="allow an endpoint without encryption")
    profile: str | None = Field(None, description="the section of the file of credentials")
    credentials: str | None = Field(
        None,
        description="a file in the form of ~/.aws/credentials, or the key of a service account of Google's",
    )


class Url(PurePosixPath):
    """A location in an object store or HDFS. It joins, compares and splits as any path, and prints as its URL.

    >>> Url("s3://bucket/lake") / "events"
    Url('s3://bucket/lake/events')
    """

    def __str__(self) -> str:
        text = super().__str__()
        return text.replace(":/", "://", 1) if _SCHEME.match(text) else text

    def __reduce__(self) -> tuple[object, ...]:
        root = _reached_root(self)
        return _restored, (self.parts, *((root.parts, _REACHED[root]) if root is not None else ()))

    @property
    def scheme(self) -> str:
        return self.parts[0].rstrip(":").lower()

    @property
    def bucket(self) -> str:
        """The bucket or container, with the account where the URL names one; of HDFS the NameNode or name service."""
        return self.parts[1]

    @property
    def key(self) -> str:
        """The name within the bucket; empty for the bucket itself."""
        return "/".join(self.parts[2:])


PLAIN = Storage()
_REACHED: dict[Url, Storage] = {}
_Place = TypeVar("_Place", bound=PurePath)


def reached_by(place: _Place, options: Storage) -> _Place:
    """The same location. From now on this process reaches it, and all below it, by these options."""
    if isinstance(place, Url):
        _REACHED[place] = options
    return place


def options_of(place: Url) -> Storage:
    """The options by which a location is reached, in this process."""
    root = _reached_root(place)
    return PLAIN if root is None else _REACHED[root]


def _reached_root(place: Url) -> Url | None:
    """The nearest location above whose options are known."""
    return next((each for each in (place, *place.parents) if each in _REACHED), None)


def _restored(parts: tuple[str, ...], root: tuple[str, ...] | None = None, options: Storage = PLAIN) -> Url:
    if root is not None:
        _REACHED[Url(*root)] = options
    return Url(*parts)


def scheme_of(written: str) -> str | None:
    """The scheme of a URL, in lower case; None for a path.

    >>> scheme_of("S3://bucket/lake"), scheme_of("./lake")
    ('s3', None)
    """
    match = _SCHEME.match(written)
    return None if match is None else match[1].lower()


def without_file_scheme(written: str) -> str:
    """`file:///lake` becomes the path `/lake`; everything else stays.

    >>> without_file_scheme("file:///lake"), without_file_scheme("s3://lake")
    ('/lake', 's3://lake')
    """
    if scheme_of(written) != "file":
        return written
    return "/" + written.split(":", 1)[1].lstrip("/")


def location(written: str) -> Path | Url:
    """The location that a text names. A path may be relative."""
    scheme = scheme_of(written)
    return Url(written) if scheme not in (None, "file") else Path(without_file_scheme(written))


def is_url(place: PurePath) -> bool:
    return isinstance(place, Url)


OBJECT_STORES = ("s3", "s3a", "gs", "abfs", "abfss", "az", "hdfs")
"""The schemes that a store, a source and a file sink can have."""
