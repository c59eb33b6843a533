"""Sessions in native Spark SQL: the rule of `model/sessions`, on columns.

An event stands for the stretch `[t, t + gap)`; stretches of a key that overlap are one session. An event
at or after the watermark of its arrival is on time whatever else there is: every session that has
closed ends before it. One behind the watermark is a *suspect*. What becomes of it depends on the
sessions there were when it came, so suspects are judged one at a time, in order of arrival.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.log.columns import ARRIVAL, TIME, WHOLE_EVENT
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.store.layout import EventLayout
from latecomer.store.sql import ddl, quoted
from latecomer.windowing.columns import (
    BATCH,
    CELL,
    END,
    FATE,
    JUDGED_END,
    JUDGED_START,
    SESSION,
    START,
    TICK,
    WATERMARK,
)
from latecomer.windowing.judge import CODES, Periods, as_seen, fate_sql, kept_sql, whole_event, with_watermark

_NTH = f"{PRIVATE}nth_suspect"
_BOUND = f"{PRIVATE}bound"
_EPOCH = f"{PRIVATE}epoch"
_ITEMS = f"{PRIVATE}items"
_VERDICT = f"{PRIVATE}verdict"
_ORDER = (BATCH, TICK, ARRIVAL, ORIGIN, POSITION)


# Stretches and sessions


def with_stretches(seen: DataFrame, window: Session) -> DataFrame:
    """Add what each event stands for."""
    end = f"{TIME} + {window.gap}L"
    if window.max is not None:
        end = f"least({end}, {TIME} - pmod({TIME}, {window.max}L) + {window.max}L)"
    return seen.selectExpr("*", f"{TIME} as {START}", f"{end} as {END}")


def cell_sql(window: Session) -> str:
    """A cell of time so small that two events of a key in it are in one session for certain."""
    gap, longest = window.gap, window.max
    if longest is None:
        return f"({START} - pmod({START}, {gap}L)) div {gap}L"
    into = f"pmod({START}, {longest}L)"
    return f"({START} - {into}) div {longest}L * {-(-longest // gap)}L + {into} div {gap}L"


def numbered(rows: DataFrame, by: Sequence[str], window: Session) -> DataFrame:
    """Number the sessions of each key: rows that meet, directly or through others, share a SESSION."""
    in_order = Window.partitionBy(*by).orderBy(START)
    reached = F.max(END).over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    met = F.col(START) < reached
    if window.joins:
        met = met | ((F.col(START) == reached) & F.expr(_may_touch_at(START, window)))
    return rows.withColumn(SESSION, F.when(met, 0).otherwise(1)).withColumn(
        SESSION, F.sum(SESSION).over(in_order.rowsBetween(Window.unboundedPreceding, 0))
    )


def _may_touch_at(moment: str, window: Session) -> str:
    """Whether two stretches of which one ends here and one begins are one session, in SQL."""
    if not window.joins:
        return "false"
    return "true" if window.max is None else f"pmod({moment}, {window.max}L) != 0"


# Fates


def judged(seen: DataFrame, timeline: DataFrame, output: Output) -> DataFrame:
    """The events that are no suspects: on time, or filtered."""
    fate = f"if({kept_sql(output)}, {CODES[Fate.ON_TIME]}, {CODES[Fate.FILTERED]})"
    prompt = with_watermark(seen, timeline).where(f"not ({_suspect(output)})")
    return with_stretches(prompt, _session(output)).withColumn(FATE, F.expr(f"cast({fate} as tinyint)"))


def judged_suspects(seen: DataFrame, periods: Periods) -> DataFrame:
    """The suspects, each with WATERMARK and the session that judged it, by the policy of their batch.

    One that was accepted has its own stretch as START and END, one that was not has that session.
    """
    output = periods[-1][1]
    fate = _by_period(periods, lambda under: fate_sql(under, JUDGED_END))
    accepted = f"{FATE} <= {CODES[Fate.LATE_ACCEPTED]}"
    return (
        with_stretches(seen, _session(output))
        .withColumn(FATE, F.expr(fate))
        .withColumn(START, F.expr(f"if({accepted}, {START}, {JUDGED_START})"))
        .withColumn(END, F.expr(f"if({accepted}, {END}, {JUDGED_END})"))
        .drop(JUDGED_START, JUDGED_END)
    )


def suspects(events: DataFrame, timeline: DataFrame, output: Output, layout: EventLayout) -> DataFrame:
    """The suspects as they were logged, with a number and the watermark that each met."""
    seen = with_watermark(as_seen(events, layout, output, whole_event(layout)), timeline)
    return seen.where(_suspect(output)).selectExpr(
        f"{WHOLE_EVENT}.*", WATERMARK, f"monotonically_increasing_id() as {_NTH}"
    )


def suspects_ddl(layout: EventLayout, judged: bool = False) -> str:
    """The columns of suspects on disk, before or after they have been judged."""
    more = (WATERMARK, JUDGED_START, JUDGED_END) if judged else (WATERMARK, _NTH)
    return ddl({**layout.stored, **dict.fromkeys(more, "bigint")})


def with_verdicts(
    suspected: DataFrame,
    events: DataFrame,
    timeline: DataFrame,
    periods: Periods,
    layout: EventLayout,
    standing: DataFrame | None,
) -> DataFrame:
    """Each suspect with the session that judges it: JUDGED_START and JUDGED_END.

    `standing` has the sessions there were before: START, END and the keys, none overlapping another.
    """
    output = periods[-1][1]
    window, keys = _session(output), [quoted(key) for key in output.by]
    bound = _by_period(periods, _bound)
    ours = with_stretches(as_seen(suspected, layout, output, WATERMARK, _NTH), window)
    ours = ours.selectExpr(
        *keys, *_ORDER, START, END, _NTH, f"{bound} as {_BOUND}", f"cast(null as bigint) as {CELL}"
    )
    prompt = with_watermark(as_seen(events, layout, output), timeline)
    prompt = prompt.where(f"not ({_behind(output)}) and {kept_sql(output)}")
    others = with_stretches(_of_keys(prompt, ours, output.by), window)
    none = f"cast(null as bigint) as {_NTH}", f"cast(null as bigint) as {_BOUND}"
    others = others.selectExpr(*keys, *_ORDER, START, END, *none, f"{cell_sql(window)} as {CELL}")
    before = Window.partitionBy(*keys).orderBy(*_ORDER).rowsBetween(Window.unboundedPreceding, -1)
    items = (
        ours.unionByName(others)
        .withColumn(_EPOCH, F.count(_NTH).over(before))
        .groupBy(*keys, _EPOCH, _NTH, _BOUND, CELL)
        .agg(F.min(START).alias(START), F.max(END).alias(END))
        .drop(CELL)
    )
    if standing is not None:
        there = _of_keys(standing, ours, output.by)
        items = items.unionByName(there.selectExpr(*keys, f"0L as {_EPOCH}", *none, START, END))
    found = (
        numbered(items, keys, window)
        .groupBy(*keys, SESSION)
        .agg(F.sort_array(F.collect_list(_item())).alias(_ITEMS), F.count(_NTH).alias(_NTH))
        .where(f"{_NTH} > 0")
        .select(F.explode(F.expr(_in_turn(_ITEMS, window))).alias(_VERDICT))
        .selectExpr(
            f"{_VERDICT}.nth as {_NTH}",
            f"{_VERDICT}.start as {JUDGED_START}",
            f"{_VERDICT}.until as {JUDGED_END}",
        )
    )
    return suspected.join(found, _NTH).drop(_NTH)


def _session(output: Output) -> Session:
    assert isinstance(output.window, Session)  # noqa: S101
    return output.window


def _suspect(output: Output) -> str:
    return f"{_behind(output)} and {kept_sql(output)}"


def _behind(output: Output) -> str:
    """Whether an event can touch a session that has closed: such a one may end at the watermark itself."""
    return f"{TIME} {'<=' if _session(output).joins else '<'} {WATERMARK}"


def _bound(output: Output) -> str:
    """An event is accepted in a session that ends after this."""
    return f"{WATERMARK} - {output.allowed_lateness}L" if output.late.accepts else WATERMARK


def _by_period(periods: Periods, sql: Callable[[Output], str]) -> str:
    """What holds for an event under the policy of its batch."""
    *earlier, (_, last) = periods
    untils = [since for since, _ in periods[1:]]
    cases = [
        f"when {BATCH} < {until} then {sql(under)}" for until, (_, under) in zip(untils, earlier, strict=True)
    ]
    return f"case {' '.join(cases)} else {sql(last)} end" if cases else sql(last)


def _of_keys(rows: DataFrame, wanted: DataFrame, by: Sequence[str]) -> DataFrame:
    """The rows whose key is among those wanted."""
    if not by:
        return rows
    names = {key: f"{PRIVATE}want_{key}" for key in by}
    keys = wanted.select(*(F.col(quoted(key)).alias(name) for key, name in names.items())).distinct()
    same = [F.col(quoted(key)).eqNullSafe(F.col(quoted(name))) for key, name in names.items()]
    return rows.join(keys, same, "left_semi")


# One at a time


def _item() -> Column:
    """Prompt events first, then the suspect that came after them: the order in which things happened."""
    return F.struct(
        F.col(_EPOCH).alias("epoch"),
        F.col(_NTH).alias("nth"),
        F.col(START).alias("start"),
        F.col(END).alias("until"),
        F.col(_BOUND).alias("bound"),
    )


def _in_turn(items: str, window: Session) -> str:
    """The session by which each suspect is judged: nth, start and until.

    A fold over what came, in order. `now` has the sessions so far; each item that is accepted joins
    those that it touches. One that touches a final session is judged by the earliest of these.
    """
    touches = "s.start < x.until and x.start < s.until"
    if window.joins:
        ends, begins = _may_touch_at("s.start", window), _may_touch_at("x.start", window)
        touches = f"({touches} or (s.start = x.until and {ends}) or (x.start = s.until and {begins}))"
    joined = (
        "named_struct('start', least(x.start, array_min(touched.start)), "
        "'until', greatest(x.until, array_max(touched.until)))"
    )
    accepted = "x.bound is null or (size(final) = 0 and joined.until > x.bound)"
    step = _let(
        {
            "touched": f"filter(now.sessions, s -> {touches})",
            "final": f"filter(touched, s -> s.until <= x.bound - {window.joinable_after}L)",
            "joined": joined,
            "by": "if(size(final) > 0, array_min(final), joined)",
        },
        "named_struct('sessions', "
        f"if({accepted}, array_append(filter(now.sessions, s -> not ({touches})), joined), now.sessions), "
        "'judged', if(x.nth is null, now.judged, "
        "array_append(now.judged, named_struct('nth', x.nth, 'start', by.start, 'until', by.until))))",
    )
    # Lists are copied when they grow: verdicts are gathered block by block, so that it stays cheap.
    firsts = f"sequence(1, size({items}), {_BLOCK})"
    blocks = f"transform({firsts}, first -> slice({items}, first, {_BLOCK}))"
    block = f"aggregate(block, {_now('so_far.sessions', _NONE)}, (now, x) -> {step})"
    both = _let({"now": block}, _now("now.sessions", "concat(so_far.judged, now.judged)"))
    none = "cast(array() as array<struct<start: bigint, until: bigint>>)"
    return f"aggregate({blocks}, {_now(none, _NONE)}, (so_far, block) -> {both}, now -> now.judged)"


_BLOCK = 512
_NONE = "cast(array() as array<struct<nth: bigint, start: bigint, until: bigint>>)"


def _now(sessions: str, judged: str) -> str:
    return f"named_struct('sessions', {sessions}, 'judged', {judged})"


def _let(names: dict[str, str], body: str) -> str:
    """SQL has no `let`: a lambda over an array of one says the same."""
    for name, value in reversed(names.items()):
        body = f"transform(array({value}), {name} -> {body})[0]"
    return body
