"""What the page shows of history, data that arrived long before it was read: it goes by the arrival clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latecomer.model.durations import UNITS, to_micros
from latecomer.model.publications import is_history
from latecomer.observe.history import DAY
from latecomer.observe.recorded import CORRECTED
from latecomer.store.layout import PaneLayout
from latecomer.store.sql import moment_literal
from latecomer.store.store import Store
from latecomer.store.table import Table

BARS = 60
"""At most so many bars are drawn."""
_WIDTHS = [
    *(each * UNITS["m"] for each in (1, 5, 15)),
    *(each * UNITS["h"] for each in (1, 6)),
    *(each * DAY for each in (1, 7, 30, 365, 3650)),
]
_HEADS = "(select at, unnest(partitions) as p from t where kind = 'tick')"
"""A row for each tick and partition, with its number of events."""


def history_until(store: Store) -> int | None:
    """The newest arrival, where it was read long afterwards; None where events are read as they arrive."""
    rows = store.watermarks.query_rows(
        "select max(t.at) as at, max(p.published_at) as published_at from t join p on t.batch = p.batch "
        "where p.output is null and t.batch = (select max(batch) from t where kind = 'tick')",
        p=store.publications,
    )
    if not rows or rows[0]["at"] is None:
        return None
    newest = to_micros(rows[0]["at"])
    return newest if is_history(newest, to_micros(rows[0]["published_at"])) else None


def received(store: Store) -> dict[str, Any]:
    """How many events arrived in each part of the time from the first arrival to the last, and how long a part is."""
    (ends,) = store.watermarks.query_rows(
        "select min(at) as first, max(at) as last from t where kind = 'tick'"
    )
    first, last = to_micros(ends["first"]), to_micros(ends["last"])
    width = next((each for each in _WIDTHS if (last - first) // each < BARS), _WIDTHS[-1])
    rows = store.watermarks.query_rows(
        f"select floor(cast(at as bigint) / {width}) as bar, sum(p['events']) as events from {_HEADS} group by 1"
    )
    return bars({int(row["bar"]): int(row["events"]) for row in rows}, first // width, last // width, width)


def bars(counted: Mapping[int, int], first: int, last: int, width: int) -> dict[str, Any]:
    """The events in each part of the time; a part has this width, in microseconds, and is named by its number."""
    return {
        "bars": [counted.get(bar, 0) for bar in range(first, last + 1)],
        "since": first * width // 1000,
        "until": (last + 1) * width // 1000,
        "width": width // 1000,
    }


def lags(store: Store, days: Sequence[int]) -> list[float | None]:
    """Seconds from the watermark to the arrival clock, on average over the ticks of each day (UTC)."""
    by_day = _by_day(
        store.watermarks,
        "at",
        days,
        "avg(cast(at as bigint) - cast(watermark as bigint))",
        "kind = 'tick' and watermark is not null",
    )
    return [None if day not in by_day else max(by_day[day], 0.0) / 1_000_000 for day in days]


def shares(store: Store, output: str, days: Sequence[int]) -> dict[str, list[Any]]:
    """For each day (UTC), the share of the events that was set aside, and corrections for each event."""
    tables = store.output_tables(output, PaneLayout(store.pipeline.outputs[output], store.layout).published)
    came = _by_day(store.watermarks, "at", days, "sum(p['events'])", among=_HEADS)
    aside = _by_day(tables.late, "arrival_time", days, "count(*)")
    corrected = _by_day(tables.panes, "fired_at", days, "count(*)", CORRECTED)
    known = [day for day in days if came.get(day)]

    def share(counts: dict[int, float]) -> list[float | None]:
        return [counts.get(day, 0) / came[day] if day in known else None for day in days]

    return {"side_output": share(aside), "corrections": share(corrected)}


def _by_day(
    table: Table, column: str, days: Sequence[int], figure: str, rows: str = "true", among: str = "t"
) -> dict[int, float]:
    rows_read = table.query_rows(
        f"select date_bin(interval '1 day', {column}) as day, {figure} as figure from {among} where "
        f"{column} >= {moment_literal(days[0] * DAY)} and {column} < {moment_literal((days[-1] + 1) * DAY)} "
        f"and {rows} group by 1"
    )
    return {to_micros(row["day"]) // DAY: row["figure"] for row in rows_read}
