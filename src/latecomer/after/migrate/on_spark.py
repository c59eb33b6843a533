"""The same account by Spark, for expressions that only it can compute. Counts and a few examples are collected."""

from __future__ import annotations

from datetime import UTC
from typing import Any

from pyspark.sql import functions as F

from latecomer.after.migrate.drift import Drift, Example
from latecomer.config.checks import PRIVATE
from latecomer.log.columns import ARRIVAL, LOGGED
from latecomer.model import types
from latecomer.model.durations import to_moment
from latecomer.model.migrations import Checks
from latecomer.model.migrations.drift import NEAR, NEW_MISSING, OLD_MISSING, differs
from latecomer.model.predicates import with_paths_quoted
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.spark.errors import explained
from latecomer.spark.session import build_session, own_session
from latecomer.spark.trying import tried
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import Store
from latecomer.windowing.columns import BATCH
from latecomer.windowing.judge import as_seen

_KIND, _MADE = f"{PRIVATE}kind", f"{PRIVATE}made"
_MORE = {name: f"{LOGGED}{name}" for name in ("producer", "schema_id", "event_id")}


@explained("comparing the two shapes")
def measure(store: Store, checks: Checks, found: Drift, examples: int) -> None:
    """Fill the account."""
    spark = own_session(build_session(store.pipeline.name, store.root / "logs" / "spark.log"))
    table, layout = store.events, store.layout
    events = spark.read.schema(ddl(layout.stored)).parquet(*table.paths(table.files()))
    seen = as_seen(events, layout, None, *(f"{name} as {private}" for name, private in _MORE.items()))
    seen = seen.where(F.col(BATCH) <= table.last_batch())
    if found.since is not None:
        seen = seen.where(F.col(ARRIVAL) >= found.since)
    made = {name: f"{_MADE}{number}" for number, name in enumerate(checks.sql)}
    computed = {
        made[name]: tried(spark, with_paths_quoted(sql), checks.expressions[name].kind, BATCH)
        for name, sql in checks.sql.items()
    }
    judged = seen.withColumns(computed).withColumn(_KIND, F.expr(_kind_sql(checks, made, layout.types)))
    whose = [F.col(_MORE["producer"]), F.col(_MORE["schema_id"])]
    counted = judged.groupBy(*whose, _KIND).agg(F.count("*"), F.min(ARRIVAL), F.max(ARRIVAL))
    for producer, schema_id, kind, events_of, first, last in counted.collect():
        found.tally((producer, schema_id)).add(kind, events_of, first, last)
    if not examples or not found.drifted:
        return
    drifting = (
        judged.where(F.col(_KIND).isNotNull()).orderBy(ARRIVAL, BATCH, ORIGIN, POSITION).limit(examples)
    )
    shown = [*map(quoted, checks.columns), *made.values()]
    kinds = [layout.types[name] for name in checks.columns]
    kinds += [checks.expressions[name].kind for name in made]
    read = [
        f"unix_micros({each})" if kind == "timestamp" else each
        for each, kind in zip(shown, kinds, strict=True)
    ]
    place = (_KIND, *_MORE.values(), ARRIVAL, BATCH, ORIGIN, POSITION)
    for row in drifting.selectExpr(*place, *read).collect():
        kind, producer, schema_id, event_id, at, batch, origin, position, *collected = row
        rest = [_value(value, type_) for value, type_ in zip(collected, kinds, strict=True)]
        values = dict(zip(checks.columns, rest, strict=False))
        expected = dict(zip(made, rest[len(values) :], strict=True))
        found.examples.append(
            Example(kind, producer, schema_id, event_id, at, batch, origin, position, values, expected)
        )


def _value(value: Any, kind: str) -> Any:
    return to_moment(value).astimezone(UTC) if kind == "timestamp" and value is not None else value


def _kind_sql(checks: Checks, made: dict[str, str], kinds: dict[str, str]) -> str:
    """What is wrong with an event, as `Checks.drift` says it."""
    has_old = " or ".join(f"{quoted(name)} is not null" for name in checks.old)
    has_new = " or ".join(f"{quoted(name)} is not null" for name in checks.new)
    cases = [
        f"when not ({has_old}) and not ({has_new}) then null",
        f"when not ({has_old}) then '{OLD_MISSING}'",
        f"when not ({has_new}) then '{NEW_MISSING}'",
        *(
            f"when not ({_equal_sql(quoted(name), column, {kinds[name], checks.expressions[name].kind})}) "
            f"then '{_literal(differs(name))}'"
            for name, column in made.items()
        ),
    ]
    return f"case {' '.join(cases)} end"


def _equal_sql(a: str, b: str, kinds: set[str]) -> str:
    same = f"{a} <=> {b}"
    if not kinds & types.FLOATS:
        return same
    near = f"abs({a} - {b}) <= {NEAR} * greatest(abs({a}), abs({b}))"
    return f"{same} or coalesce({near}, false)"


def _literal(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
