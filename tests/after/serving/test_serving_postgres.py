"""The view for Postgres, on a real one: results in a table, corrections loaded as the comment says."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from after.serving.correct_kit import late, make_lake, publish, reader, served
from cli.cli_kit import Lake
from latecomer.after.reading.choices import Engine
from latecomer.after.serving.served import serving
from latecomer.after.serving.views import view
from latecomer.cli import main
from postgres_kit import required_binaries, running

TABLE = """
create table totals (
  window_start timestamptz, window_end timestamptz, merchant text, paise bigint, payments bigint,
  fees numeric(38,2), filled bigint, least bigint, largest numeric(18,2), first text, mean numeric(38,6),
  sequence bigint, timing text)
"""


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with running(required_binaries()) as server, psycopg.connect(server.url_with_password) as connected:
        yield connected


def printed(lake: Lake, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["correct", str(lake.file), "totals", "--format", "csv"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def test_postgres_serves_the_same(
    connection: psycopg.Connection[tuple[object, ...]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = make_lake(tmp_path)
    fee = Decimal("1.25")
    publish(lake, "totals", 0, [late(0, "a", paise=5, fee=fee), late(0, None), late(1, "a", paise=1)])
    cursor = connection.cursor()
    cursor.execute(TABLE)
    for row in reader(lake).results("totals").to_pylist():
        cursor.execute(
            f"insert into totals values ({', '.join(['%s'] * len(row))})".encode(), [*row.values()]
        )
    cursor.execute(view(reader(lake), "totals", Engine.POSTGRES).encode())
    for batch in (1, 2):
        lake.late(
            "totals", batch, [late(0, "a", paise=7, payer="b"), late(0, None, fee=fee), late(2, "o'\"")]
        )
        with cursor.copy("copy totals_corrections from stdin csv header") as copy:
            copy.write(printed(lake, capsys))
    cursor.execute("select * from totals_serving")
    names = [column.name for column in cursor.description or []]
    found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    expected = serving(reader(lake), "totals")
    assert names == expected.schema.names
    compared = [name for name in names if name != "mean"]
    assert served(found, *compared) == served(expected.to_pylist(), *compared)
    assert served(found, "paise", "origin")[0, "a"] == (19, "corrected")
