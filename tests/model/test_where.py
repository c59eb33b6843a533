"""What a `where` may be: a condition over the columns of an event, whoever has written it."""

from __future__ import annotations

import pytest

from latecomer import Output, PipelineError, Punctuated
from latecomer.model.predicates import FUNCTIONS, check_where, column_mistake
from latecomer.model.strategies import Needs

COLUMNS = ["status", "paise", "at", "note", "date", "table", "net amount", "größe", "user_id"]
ALLOWED = [
    "status = 'OK'",
    "status in ('OK', 'DONE') and not (paise <= 0 or paise is null)",
    "paise between 1 and 5 and status <=> null and status is distinct from 'x'",
    "note like '50\\%%' escape '!' or note rlike '^a.*b$' or note ilike any ('a', 'b')",
    "lower(trim(both ' ' from status)) = 'ok' and length(note) > 3",
    "case when paise > 5 then status = 'OK' else false end",
    "cast(note as decimal(10, 2)) > 1.5e3 and try_cast(note as bigint) is not null and note::int > 1",
    "at >= timestamp '2026-11-08 14:00:00' - interval '1' day and date_trunc('hour', at) < at + interval 2 hours",
    "extract(year from at) = 2026 and date(at) = date '2026-01-01' and `date` > '2026'",
    "paise % 10 < 5 and -paise div 3 <> 2 and (paise & 1) = 0 and ~paise != 3L and !(paise > .5)",
    "hash(note) > 0 and regexp_replace(note, '[0-9]', '') = 'a''b' and note = r'\\d' and note = \"it's\"",
    "get_json_object(note, '$.a.b') = '1' and split(note, ',')[0] = 'x'",
    "`net amount` > 0 and größe = 'a' and `table` = 1",
    "note = 'reflect(1) -- /* ; select'",
    "status\n  = 'OK'",
]
REFUSED = {
    "reflect('java.lang.Runtime', 'getRuntime') is null": "calls Java methods",
    "REFLECT ('a', 'b') is null": "calls Java methods",
    "java_method('java.lang.System', 'exit', 1) = 1": "calls Java methods",
    "try_reflect('a', 'b') is null": "calls Java methods",
    "`reflect`('a', 'b') is null": "bare name",
    "system.builtin.reflect('a', 'b') is null": "calls system.builtin.reflect",
    "a.`b` > 1": "no use for",
    "a. b > 1": "no use for",
    "rand() < 0.5": "depends on chance",
    "rand(7) < 0.5": "depends on chance",
    "note <> uuid()": "depends on chance",
    "monotonically_increasing_id() % 2 = 0": "depends on chance",
    "spark_partition_id() = 0": "session or the machine",
    "input_file_name() like '%x'": "session or the machine",
    "version() > '3'": "session or the machine",
    "note = current_user()": "session or the machine",
    "at < now() - interval 1 day": "depends on the clock",
    "at < current_timestamp()": "depends on the clock",
    "at < localtimestamp()": "depends on the clock",
    "date(at) = curdate()": "depends on the clock",
    "read_files('/etc/passwd') is null": "reads files",
    "repeat(note, 2000000000) = ''": "any length",
    "raise_error('x') is null": "stops the pipeline",
    "my_function(note) = 1": "not on the list",
    "lowr(status) = 'ok'": "did you mean lower",
    "paise in (select 1)": "query begins",
    "(select max(paise) from events) = 1": "query begins",
    "paise = (from t)": "query begins",
    "paise in (values 1)": "query begins",
    "paise = (map a using 'sh')": "query begins",
    "exists (select 1)": "exists may not be called",
    "sum(paise) over (order by at) > 1": "not on the list",
    "transform(split(note, ','), x -> x)[0] = 'a'": "no use for",
    "true -- and more": "comment",
    "true /* and more */": "comment",
    "paise > 1) or (true": "too many",
    "(paise > 1": "not closed",
    "split(note, ',')[0) = 'a'": "too many",
    "true, reflect('a', 'b')": "comma outside",
    "note = '${env:HOME}'": "environment variables",
    "paise > 1; drop table x": "no use for",
    "note = $$x$$": "no use for",
    "note = 'open": "no use for",
    "paise > :limit": "no use for",
    "ſelect > 1": "no use for",
    "paise\x00 > 1": "no use for",
    "  ": "empty",
}


@pytest.mark.parametrize("where", ALLOWED)
def test_a_condition_over_columns_is_taken(where: str) -> None:
    check_where(where)
    assert column_mistake(where, COLUMNS) is None


@pytest.mark.parametrize(("where", "reason"), REFUSED.items())
def test_what_does_more_is_refused_with_its_reason_and_a_fix(where: str, reason: str) -> None:
    with pytest.raises(ValueError, match="; ") as refused:
        check_where(where)
    assert reason in str(refused.value)


def test_it_is_refused_wherever_a_condition_is_loaded() -> None:
    where = "reflect('a', 'b') is null"
    with pytest.raises(PipelineError, match="calls Java methods"):
        Output(window={"tumbling": "1m"}, where=where, aggregates={"n": "count(*)"})
    with pytest.raises(PipelineError, match="calls Java methods"):
        Punctuated(where=where)
    with pytest.raises(PipelineError, match="calls Java methods"):
        Needs(where=where)


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("stats = 'OK'", "the source has no column stats; did you mean status?"),
        ("`Status` = 'OK'", "the source has no column Status"),
        ("current_date > at", "current_date depends on the clock"),
        ("user = 'x'", "user depends on the session"),
        ("lower = 'x'", "the source has no column lower"),
    ],
)
def test_a_name_that_is_no_column_is_told_before_spark_starts(where: str, said: str) -> None:
    assert (column_mistake(where, COLUMNS) or "").startswith(said)


def test_the_list_in_the_documents_is_the_list() -> None:
    from pathlib import Path

    text = (Path(__file__).parents[2] / "docs" / "conditions.md").read_text(encoding="utf-8")
    listed = text.partition("## Functions")[2].partition("\n## ")[0]
    rows = [line.split("|")[2] for line in listed.splitlines() if line.startswith("|") and "`" in line]
    assert {word.strip("` ") for row in rows for word in row.split(",")} == FUNCTIONS
