"""Event time → windows, in native Spark SQL: the same arithmetic as `model/windows`, on columns.

Each event gets START and END in microseconds. Where windows overlap it becomes one row for each of
them; LEADING then marks the one that ends last, by which the event itself is counted, and FIRST_END is
the end of the earliest.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.log.columns import TIME
from latecomer.model.durations import DAY
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT, Calendar, FixedWindow, Global, Sliding, Tumbling
from latecomer.windowing.columns import END, FIRST_END, LEADING, START

_LOCAL = f"{PRIVATE}local"
_BEGIN, _STOP = f"{PRIVATE}begin", f"{PRIVATE}stop"


def with_windows(seen: DataFrame, window: FixedWindow) -> DataFrame:
    """Add the start and end of each window that holds an event."""
    match window:
        case Sliding():
            return _sliding(seen, window)
        case Calendar():
            return _calendar(seen, window)
        case Global():
            return seen.selectExpr("*", f"{FIRST_MOMENT}L as {START}", f"{END_OF_TIME}L as {END}")
        case Tumbling(zone="UTC"):
            into = f"pmod({TIME} - {window.offset}L, {window.size}L)"
            return seen.selectExpr(
                "*", f"{TIME} - {into} as {START}", f"{TIME} - {into} + {window.size}L as {END}"
            )
        case _:
            return _zoned(seen, window)


def _sliding(seen: DataFrame, window: Sliding) -> DataFrame:
    newest = f"({TIME} - pmod({TIME} - {window.offset}L, {window.every}L))"
    # The earliest window that still holds the event starts after TIME - size.
    steps = f"(({newest} - {TIME} + {window.size}L - 1) div {window.every}L)"
    oldest = f"({newest} - {steps} * {window.every}L)"
    return seen.selectExpr(
        "*", f"explode(sequence({oldest}, {newest}, {window.every}L)) as {START}"
    ).selectExpr(
        "*",
        f"{START} + {window.size}L as {END}",
        f"{START} = {newest} as {LEADING}",
        f"{oldest} + {window.size}L as {FIRST_END}",
    )


def _calendar(seen: DataFrame, window: Calendar) -> DataFrame:
    zone, unit = window.zone, window.calendar
    wall = f"from_utc_timestamp(timestamp_micros({TIME}), '{zone}')"

    def moved(units: int) -> str:
        return f"timestampadd({unit.upper()}, {units}, {_LOCAL})"

    # Where a clock goes back over midnight, the wall clock can mislead by one window.
    placed = (
        f"case when {TIME} < {_utc(_LOCAL, zone)} then {moved(-1)} "
        f"when {TIME} >= {_utc(moved(1), zone)} then {moved(1)} else {_LOCAL} end"
    )
    return (
        seen.withColumn(_LOCAL, F.expr(f"date_trunc('{unit}', {wall})"))
        .withColumn(_LOCAL, F.expr(placed))
        .withColumn(START, F.expr(_utc(_LOCAL, zone)))
        .withColumn(END, F.expr(_utc(moved(1), zone)))
        .drop(_LOCAL)
    )


def _zoned(seen: DataFrame, window: Tumbling) -> DataFrame:
    zone, frame = window.zone, window.frame
    wall = f"unix_micros(from_utc_timestamp(timestamp_micros({TIME}), '{zone}'))"
    # At a clock change the wall clock can mislead by one frame.
    framed = (
        f"case when {TIME} < {_at(_LOCAL, zone)} then {_LOCAL} - {frame}L "
        f"when {TIME} >= {_at(f'{_LOCAL} + {frame}L', zone)} then {_LOCAL} + {frame}L else {_LOCAL} end"
    )
    days = (
        seen.withColumn(_LOCAL, F.expr(wall))
        .withColumn(_LOCAL, F.expr(f"{_LOCAL} - pmod({_LOCAL} - {window.offset}L, {frame}L)"))
        .withColumn(_LOCAL, F.expr(framed))
        .withColumn(START, F.expr(_at(_LOCAL, zone)))
        .withColumn(END, F.expr(_at(f"{_LOCAL} + {frame}L", zone)))
    )
    return (_within_days(days, window) if window.within_days else days).drop(_LOCAL)


def _within_days(days: DataFrame, window: Tumbling) -> DataFrame:
    """The window within START and END, a day that begins at LOCAL; as `Tumbling` does it, step by step."""
    zone, cell, size = window.zone, window.cell, window.size
    longer, into = f"({END} - {START} - {DAY}L)", f"({TIME} - {START})"
    before = f"({into} - pmod({into}, {cell}L))"
    after = f"({into} - {longer} - pmod({into} - {longer}, {cell}L))"
    low, high = (f"({_LOCAL} + {pick}({before}, {after}))" for pick in ("least", "greatest"))

    def chosen(further: int) -> str:
        """Where the cell begins, or where it ends."""
        return (
            f"case when {longer} = 0 then {START} + {before} + {further}L "
            f"when abs({longer}) > {cell}L then {END if further else START} "
            f"when {_at(high, zone)} <= {TIME} then {_at(f'{high} + {further}L', zone)} "
            f"else {_at(f'{low} + {further}L', zone)} end"
        )

    begin, end = chosen(0), chosen(cell)
    cells = days.withColumns({_BEGIN: F.expr(begin), _STOP: F.expr(end)})
    last = f"(greatest(({_STOP} - {_BEGIN}) div {size}L, 1) - 1)"
    nth = f"least(({TIME} - {_BEGIN}) div {size}L, {last})"
    start = f"{_BEGIN} + {nth} * {size}L"
    return cells.withColumns(
        {START: F.expr(start), END: F.expr(f"if({nth} = {last}, {_STOP}, {start} + {size}L)")}
    ).drop(_BEGIN, _STOP)


def _at(local: str, zone: str) -> str:
    """The instant at which the wall clock of a zone shows a time, both in microseconds."""
    return _utc(f"timestamp_micros({local})", zone)


def _utc(local: str, zone: str) -> str:
    """The instant at which the wall clock of a zone shows a time, in microseconds."""
    return f"unix_micros(to_utc_timestamp({local}, '{zone}'))"
