"""Results held against a query on a real Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from after.reconcile.reconcile_kit import against, gap_of, lake_in, row
from cli.cli_kit import Lake, pane
from latecomer.cli import main
from latecomer.errors import PipelineError
from postgres_kit import PASSWORD, Postgres, required_binaries, running

TABLE = """
create table payments (at timestamptz, shop text, paise bigint, fee numeric(18,2), km double precision);
insert into payments values
  ('2026-04-25 17:30:10+05:30', 'amul', 1152921504606846976, 1.25, 0.1),
  ('2026-04-25 12:00:20+00', 'amul', 1, 1.25, 0.2),
  ('2026-04-25 12:01:00+00', null, 7, null, null);
"""
QUERY = """
select date_trunc('minute', at) as window_start, shop as merchant, sum(paise) as paise, count(*) as payments
from payments group by 1, 2
"""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running(required_binaries()) as server:
        with psycopg.connect(server.url_with_password) as connection:
            connection.execute(TABLE.encode())
        connection.close()
        yield server


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = lake_in(tmp_path)
    lake.panes("totals", 0, [row(0, "amul", 2**60 + 1, 2), row(1, None, 7)])
    return lake


def test_a_query_is_compared_exactly(lake: Lake, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    found = against(lake, "totals", postgres.url, query=QUERY)
    assert found.counts == {"equal": 2, "different": 0, "missing": 0, "extra": 0}
    other = against(lake, "totals", postgres.url, query=QUERY.replace("sum(paise)", "sum(paise) + 1"))
    assert other.counts["different"] == 2
    assert gap_of(other, "paise").gap == 2


def test_numeric_and_double_are_compared_by_value(lake: Lake, postgres: Postgres) -> None:
    outcome = {**pane(0, 0, merchant="amul", shop=1, paise=2**60 + 1, km=0.3), "fee": Decimal("2.50")}
    lake.panes("kinds", 0, [outcome])
    query = """select date_trunc('minute', at) as window_start, shop as merchant, 1 as shop,
        sum(paise) as paise, sum(fee) as fee, sum(km) as km
        from payments where shop is not null group by 1, 2"""
    assert against(lake, "kinds", postgres.url_with_password, query=query).equal


def test_the_password_may_come_from_a_file(
    lake: Lake, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{postgres.port}:*:*:{PASSWORD}\n")
    file.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(file))
    assert against(lake, "totals", postgres.url, query=QUERY).equal


def test_a_query_cannot_write(lake: Lake, postgres: Postgres, tmp_path: Path) -> None:
    copied = tmp_path / "copied"
    for query in (
        "delete from payments returning at as window_start",
        "drop table payments",
        "commit; delete from payments; select 1 as window_start",
        "select 1 as window_start; commit; delete from payments",
        "select 1 as window_start; delete from payments --",
        "with gone as (delete from payments returning at) select at as window_start from gone",
        f"copy payments to '{copied}'",
        "set transaction read write",
        "select set_config('transaction_read_only', 'off', true) as window_start",
        "select at as window_start into other from payments",
        "create table other as select 1 as window_start",
        f"copy payments to program 'touch {copied}'",
        "explain analyze delete from payments",
        "do $$begin delete from payments; end$$",
        "select at as window_start from payments for update",
        "select query_to_xml('delete from payments', true, true, '') as window_start",
    ):
        with pytest.raises(PipelineError, match="Postgres cannot answer it"):
            against(lake, "totals", postgres.url_with_password, query=query)
    assert not copied.exists()
    assert against(lake, "totals", postgres.url_with_password, query=QUERY).equal


@pytest.mark.parametrize(
    ("change", "query", "outcome"),
    [
        (("", ""), "select * from gone", 'relation "gone" does not exist'),
        (("", ""), "selec 1", "syntax error"),
        ((PASSWORD, PASSWORD + "-wrong"), QUERY, "password authentication failed"),
        (("127.0.0.1:", "127.0.0.1:1"), QUERY, "cannot be reached"),
        (("@127.0.0.1:", "@127.0.0.1:x"), QUERY, "cannot be reached"),
        ((PASSWORD, PASSWORD + "/@:"), QUERY, "is not a URL that Postgres can read"),
        (("/postgres", "/postgres?pasword=" + PASSWORD), QUERY, "is not a URL that Postgres can read"),
    ],
)
def test_what_goes_wrong_is_told_without_the_password(
    lake: Lake,
    postgres: Postgres,
    capsys: pytest.CaptureFixture[str],
    change: tuple[str, str],
    query: str,
    outcome: str,
) -> None:
    url = postgres.url_with_password.replace(*change) if change[0] else postgres.url_with_password
    with pytest.raises(SystemExit) as ended:
        main(["--debug", "reconcile", str(lake.file), "totals", "--against", url, "--query", query])
    said = capsys.readouterr()
    assert ended.value.code == 2
    assert outcome in said.err
    assert PASSWORD not in said.err + said.out


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_the_password_is_in_no_output(
    lake: Lake, postgres: Postgres, capsys: pytest.CaptureFixture[str], form: str
) -> None:
    source = ["--against", postgres.url_with_password, "--query", QUERY, "--format", form]
    with pytest.raises(SystemExit) as ended:
        main(["reconcile", str(lake.file), "totals", *source])
    said = capsys.readouterr()
    assert ended.value.code == 0
    assert PASSWORD not in said.out + said.err
    assert form == "csv" or "postgresql://ana:***@127.0.0.1" in said.out
