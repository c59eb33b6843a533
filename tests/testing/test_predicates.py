"""Predicates without Spark: three-valued, exact, or refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.spark.session import own_session
from latecomer.store.sql import quoted

COLUMNS = {
    "status": "string",
    "paise": "bigint",
    "rupees": "decimal(18,2)",
    "share": "double",
    "ok": "boolean",
    "two words": "string",
    "odd": "double",
    "wide": "decimal(38,20)",
    "seen": "timestamp",
}
ROWS: list[dict[str, Any]] = [
    {
        "odd": float("nan"),
        "ok": True,
        "paise": 2**53 + 1,
        "share": 2.0**53,
        "rupees": Decimal("9007199254740993.00"),
    },
    {"odd": float("inf"), "ok": False, "paise": -(2**63), "share": -0.0, "rupees": Decimal("0.00")},
    {"status": "SUCCESS", "paise": 50, "rupees": Decimal("0.10"), "share": 0.1, "ok": True, "two words": "a"},
    {"status": "FAILED", "paise": -1, "rupees": Decimal("7.00"), "share": 7.0, "ok": False, "two words": "b"},
    {"status": "", "paise": 0, "rupees": Decimal("-0.10"), "share": -2.5, "ok": None, "two words": None},
    {"status": None, "paise": None, "rupees": None, "share": None, "ok": None, "two words": None},
    {"status": "é", "paise": 7, "rupees": Decimal("0.30"), "share": 0.30000000000000004, "ok": True},
]
PREDICATES = [
    "ok",
    "not ok",
    "ok or paise > 10",
    "status = 'SUCCESS'",
    "status == 'SUCCESS' AND paise >= 50",
    "status <> 'FAILED'",
    "status != ''",
    "status < 'T'",
    "status <=> null",
    "paise <=> 50",
    "paise is null",
    "paise is not null and not paise = 0",
    "ok is true",
    "ok is not true",
    "ok is false or ok is null",
    "not (ok is null)",
    "paise in (1, 50, 7)",
    "paise not in (1, 50)",
    "paise in (1, null)",
    "paise not in (0, null)",
    "paise between 0 and 10",
    "paise not between 0 and 10 or ok",
    "paise = -1",
    "rupees > 0.1",
    "rupees = 0.10",
    "rupees >= 7",
    "paise < 6.5",
    "share = 0.1",
    "share > 0.3",
    "share = 7",
    "share <= rupees",
    "paise = share or paise > rupees",
    "`two words` = 'a' or (status = 'é' and ok)",
    "not ok = false",
    "not ok and paise < 0 or ok and paise > 0",
    "null",
    "null or ok",
    "null and ok",
    "(paise > 0) = ok",
    "true",
    "ok = (paise > 10)",
    "(((ok)))",
    "odd = odd",
    "odd > 5",
    "odd in (1, 2e0)",
    "odd between 1 and share",
    "share = 0 or share < 0.0",
    "paise = share",
    "rupees in (paise, 0.1)",
    "rupees in (share, 0.1)",
    "paise > 1e3",
    "paise = 50L",
    "paise = -9223372036854775808",
    "1234567890123456789 = paise",
    "paise is distinct from 50",
    "paise is not distinct from null",
    "status in ('', 'é', null)",
    "! ok",
    "case when ok then paise > 0 else rupees > 1 end",
    "wide = 0.00000000000000000001",
]


@pytest.mark.parametrize("written", PREDICATES)
def test_only_what_is_read_is_answered(written: str) -> None:
    answers = [predicate(written, COLUMNS)(row) for row in ROWS]
    assert set(answers) <= {True, False, None}


def test_spark_gives_the_same_answers(spark: SparkSession) -> None:
    kinds = {name: kind for name, kind in COLUMNS.items() if name != "seen"}
    table = pa.table({name: [row.get(name) for row in ROWS] for name in kinds})
    frame = own_session(spark).createDataFrame(table)
    frame = frame.select(*(F.col(quoted(name)).cast(kind).alias(name) for name, kind in kinds.items()))
    asked = frame.selectExpr(*(f"({written}) as p{n}" for n, written in enumerate(PREDICATES)))
    outcome = [list(row) for row in asked.collect()]
    ours = [[predicate(written, COLUMNS)(row) for written in PREDICATES] for row in ROWS]
    assert [
        (PREDICATES[n], row, theirs, mine)
        for row, sides in enumerate(zip(outcome, ours, strict=True))
        for n, (theirs, mine) in enumerate(zip(*sides, strict=True))
        if theirs is not mine
    ] == []


@pytest.mark.parametrize(
    "written",
    [
        "upper(status) = 'X'",
        "paise + 1 > 2",
        "status like 'S%'",
        "status = 5",
        "paise = '5'",
        "ok = 1",
        "paise",
        "'text'",
        "status = 'it''s'",
        "status = 'a\\n'",
        'status = "SUCCESS"',
        "seen > '2026-01-01'",
        "a.b = 1",
        "STATUS = 'x'",
        "nothing = 1",
        "paise > 1 paise",
        "paise >",
        "paise between 1",
        "paise in ()",
        "(ok",
        "ok)",
        "paise is 5",
        "paise not 5",
        "paise = - paise",
        "",
        "current_date() > seen",
        "current_date > seen",
        "wide = paise",
        "paise and ok",
        "paise is true",
        "abs(paise) = 1",
        "status rlike 'x'",
        "paise = 1 -- more",
    ],
)
def test_everything_else_needs_spark(written: str) -> None:
    with pytest.raises(NeedsSpark, match="run it on Spark"):
        predicate(written, COLUMNS)
