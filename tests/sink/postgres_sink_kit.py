"""What tests of the Postgres sink share, besides the kit of all sinks."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import SinkError, SinkOutage
from postgres_kit import PASSWORD, Postgres
from sink.sink_kit import opened

NUMBERS = count()
"""For names of schemas, users and databases: all tests share a server."""


def shown(postgres: Postgres) -> str:
    return postgres.url.replace("@", ":***@")


def refused_opening(path: Path, **settings: Any) -> str:
    with pytest.raises(SinkError) as caught:
        opened("postgres", path, **settings)
    assert not isinstance(caught.value, SinkOutage)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)
