"""The Postgres sink on a real server."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from latecomer.config.sinks import PostgresSink
from latecomer.testing import check_sink
from postgres_kit import Postgres

NUMBERS = count()


@pytest.fixture
def schema() -> str:
    """A schema for the test alone."""
    return f"test {next(NUMBERS)}"


def test_it_keeps_what_every_sink_promises(postgres: Postgres) -> None:
    def fresh() -> PostgresSink:
        return PostgresSink(target=postgres.url_with_password, schema=f'it\'s 100% "odd".é {next(NUMBERS)}')

    def read(sink: PostgresSink) -> list[dict[str, Any]]:
        schema = sink.schema_name.replace('"', '""')
        return postgres.ask(f'select * from "{schema}".checked')

    check_sink(fresh, read)
