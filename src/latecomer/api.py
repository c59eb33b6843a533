"""What the command line can do after publication, from Python.

Every call takes a `Pipeline`. A moment is a `datetime` (UTC unless it has a zone) or ISO-8601 text (a time of the
output's zone unless it has an offset); a duration is written as in the pipeline file, such as "4h".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from latecomer.after.certify import certificate as certificates
from latecomer.after.explain import explain as explaining
from latecomer.after.reading.choices import Clock, Origin
from latecomer.after.reading.reader import Reader
from latecomer.after.reconcile import reconcile as reconciling
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.gaps import Tolerance
from latecomer.after.serving import correcting
from latecomer.after.serving.served import preferred, serving
from latecomer.after.serving.views import beside_a_run, keep_served
from latecomer.config.arguments import (
    Refused,
    refused_argument,
    require_flags,
    require_key,
    require_kind,
    require_order,
    require_pipeline,
)
from latecomer.config.checks import require_output
from latecomer.model.durations import to_moment
from latecomer.model.windows import zone_of
from latecomer.model.zoned import read
from latecomer.observe import check as checking
from latecomer.sink import keeper
from latecomer.store.store import open_store

if TYPE_CHECKING:
    from threading import Event

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryListener

    from latecomer.after.certify.certificate import Certificate, Checked
    from latecomer.after.explain.explanation import Explanation
    from latecomer.after.letters.replaying import ReplayedLetters
    from latecomer.after.rebuild.rebuilding import Applied
    from latecomer.after.reconcile.gaps import Reconciliation
    from latecomer.config.models import Pipeline
    from latecomer.engine.ledger.report import BatchReport
    from latecomer.engine.pipeline import Engine
    from latecomer.engine.running import RunReport
    from latecomer.log.progress import LogProgress
    from latecomer.observe.advise.page import Advice
    from latecomer.observe.nowcast.report import Nowcast
    from latecomer.store.rebuilds import Rebuild

Moment = datetime | str
Watch = Callable[["LogProgress"], None]


def run(
    pipeline: Pipeline,
    *,
    once: bool = False,
    drain: bool = False,
    standby: bool = False,
    spark: SparkSession | None = None,
    watch: Callable[[BatchReport], None] | StreamingQueryListener = lambda _: None,
    stop: Event | None = None,
    file: str | Path | None = None,
    begin: Callable[[Engine], None] = lambda _: None,
) -> RunReport:
    """Run the pipeline until it is stopped. With `once`, read all that is there and stop; with `drain`, also close
    every window.

    Bring your own `spark`, or a local session is started. `watch` is called after every batch, or is a Spark listener
    that gets its progress. `stop` ends a continuous run after the batch under way; so do SIGINT and SIGTERM in the main
    thread. With `standby`, wait while another run has the store, and take over when it stops or dies. `begin` gets the
    engine before it starts.
    """
    from latecomer.engine import running
    from latecomer.engine.spark_progress import watch_of

    require_pipeline("run", pipeline)
    return beside_a_run(
        running.run,
        pipeline,
        once=once,
        drain=drain,
        standby=standby,
        spark=spark,
        watch=watch_of("run", pipeline, watch),
        stop=stop,
        file=file,
        begin=begin,
    )


def correct(
    pipeline: Pipeline, output: str, *, since: Moment | None = None, until: Moment | None = None
) -> pa.Table:
    """Add up what came too late since the last call, and return the rows that were added.

    Only windows that start in [since, until) are corrected; all by default.
    """
    require_pipeline_and_output("correct", pipeline, output)
    first, end = _range("correct", pipeline, output, since, until)
    reader = Reader(pipeline)
    rows = correcting.correct(reader, output, first, end)
    keep_served(reader, output)
    return rows


def serve(pipeline: Pipeline, output: str, *, prefer: str | None = None) -> pa.Table:
    """Results that include what came too late: for each aggregate its value, its base and its correction.

    With `prefer`, results in the columns of published ones, from one origin: "rebuilt", "corrected" or "live".
    """
    require_pipeline_and_output("serve", pipeline, output)
    reader = Reader(pipeline)
    if prefer is None:
        return serving(reader, output)
    return preferred(reader, output, _choice("serve", "prefer", Origin, prefer))


def nowcast(
    pipeline: Pipeline,
    output: str,
    *,
    window: Moment | None = None,
    key: Mapping[str, str | None] | None = None,
) -> Nowcast:
    """How complete open and recently closed windows are, and what their numbers will probably be in the end.

    `rows` is an Arrow table with an interval of 90 % for each count and sum. `calibration` says how often such
    intervals held for past windows, and `notes` sums it up in words. Where nothing can be said, `refused` says why.
    `window` keeps the window that holds a moment, `key` the rows whose key columns have these values, as text.
    """
    from latecomer.observe.nowcast.nowcasting import nowcast as nowcast_of_reader

    require_pipeline_and_output("nowcast", pipeline, output)
    require_key("nowcast", key)
    moment = None if window is None else moment_of("nowcast", "window", pipeline, output, window)
    return nowcast_of_reader(Reader(pipeline), output, moment, key)


def advise(
    source: Pipeline | str | Path,
    *,
    by: Sequence[str] = (),
    outputs: Sequence[str] = (),
    delays: Sequence[str] = (),
    lateness: Sequence[str] = (),
    target_completeness: float | None = None,
    max_latency: str | None = None,
    sample: float | None = None,
    **files: Any,
) -> Advice:
    """How late events come, what each setting would mean, who is late, and which settings are advised.

    `source` is a pipeline that has run, or the path of raw files or of a Delta table. A path needs `event_time`, the
    name of a column, and may have `arrival`, `partition`, `producer`, `measures`, `unit`, `zone`, `every`,
    `idle_after`, `max_future` and `window`. `by` are columns to group by. `sample` is the share of the events to look
    at; all by default.
    """
    from latecomer.observe.advise import advising

    question = advising.AdviceOptions(
        tuple(_texts("advise", "by", by)),
        tuple(_texts("advise", "outputs", outputs)),
        tuple(_texts("advise", "delays", delays)),
        tuple(_texts("advise", "lateness", lateness)),
        target_completeness,
        max_latency,
        sample,
    )
    return advising.advice_on(source, question, files)


def gaps(pipeline: Pipeline, *, producer: str | None = None) -> pa.Table:
    """The numbers that are missing in the producers' counts of their events; with `producer`, in that one's.

    It needs `event.producer` and `event.producer_seq`; `Reader.gaps` describes the columns.
    """
    require_pipeline("gaps", pipeline)
    return Reader(pipeline).gaps(producer)


def replay_dead_letters(
    pipeline: Pipeline,
    *,
    where: str | None = None,
    fix: Mapping[str, Any] | None = None,
    source: str | None = None,
    dry_run: bool = False,
    spark: SparkSession | None = None,
) -> ReplayedLetters:
    """Take dead letters in again, repaired: each becomes an event once, and arrives now.

    `where` is a condition over the columns of dead letters; without it, all are taken. `fix` may have "format" or
    "unit" (how the event time is written), "column:NAME" (SQL for a column), "raw" (SQL for the text of the record) and
    "text" (corrected texts: a file, or a list of {"batch", "origin", "position", "raw"}). `source` names the source of
    the dead letters, where several sources have some. With `dry_run` nothing is changed.
    """
    from latecomer.after.letters.choosing import asked_for
    from latecomer.after.letters.replaying import replay_letters

    call = "replay_dead_letters"
    require_pipeline(call, pipeline)
    require_kind(call, (Mapping, type(None)), 'fixes, such as {"format": "dd/MM/yyyy HH:mm"}', fix=fix)
    require_kind(call, str, "the name of a fix", **{f"fix {key}": key for key in fix or {}})
    require_kind(call, (str, type(None)), "the name of a source", source=source)
    require_flags(call, dry_run=dry_run)
    choice, repair = asked_for(where, fix or {}, f"{call}()", source)
    return replay_letters(pipeline, choice, repair, dry_run=dry_run, spark=spark)


def sink_status(pipeline: Pipeline) -> pa.Table:
    """How far each sink is behind, since when and why. It may be called during a run."""
    require_pipeline("sink_status", pipeline)
    return keeper.sink_status(open_store(pipeline))


def check_alerts(pipeline: Pipeline) -> pa.Table:
    """Whether an alert fires, by the store alone. It may be called during a run. docs/metrics.md has the columns."""
    require_pipeline("check_alerts", pipeline)
    return checking.as_table(checking.check(pipeline))


def explain(
    pipeline: Pipeline,
    output: str,
    window: Moment,
    key: Mapping[str, str | None] | None = None,
    *,
    clock: str = Clock.PUBLISHED,
) -> Explanation:
    """The history of one number: that of an output for a key, in the window that holds a moment.

    `clock` says when a pane counts as known: "published", when its batch was; "arrival", when what fired it arrived.
    """
    require_pipeline_and_output("explain", pipeline, output)
    require_key("explain", key)
    moment = moment_of("explain", "window", pipeline, output, window)
    chosen = _choice("explain", "clock", Clock, clock)
    return explaining.explain(Reader(pipeline), output, moment, key, chosen, by_spark)


def reconcile(
    pipeline: Pipeline,
    output: str,
    against: str,
    *,
    query: str | None = None,
    columns: Mapping[str, str] | None = None,
    tolerance: str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    zone: str | None = None,
    spark: SparkSession | None = None,
) -> Reconciliation:
    """Compare results with the same results from elsewhere, and explain the gap.

    `against` is "log", a Parquet, CSV or Delta path, "sqlite:PATH" or "postgresql://…"; `query` selects the rows
    of a database; `columns` maps its columns to the output's; `tolerance` is "0.01" or "1%".
    """
    require_pipeline_and_output("reconcile", pipeline, output)
    require_kind("reconcile", str, 'a source, such as "log"', against=against)
    require_kind("reconcile", (str, type(None)), "text", query=query, tolerance=tolerance, zone=zone)
    require_kind(
        "reconcile", (Mapping, type(None)), 'columns, such as {"ts": "window_start"}', columns=columns
    )
    first, end = _range("reconcile", pipeline, output, since, until)
    return reconciling.reconcile(
        pipeline,
        output,
        Against(against, query, dict(columns or {})),
        tolerance=None if tolerance is None else Tolerance.parse(tolerance),
        since=first,
        until=end,
        zone=zone,
        spark=spark,
    )


def certify(pipeline: Pipeline, output: str, at: Moment | None = None) -> Certificate:
    """Certify the results of the windows that were closed at a watermark; by default at the present one."""
    require_pipeline_and_output("certify", pipeline, output)
    moment = None if at is None else moment_of("certify", "at", pipeline, output, at)
    return certificates.certify(pipeline, output, moment)


def check_certificate(
    pipeline: Pipeline,
    output: str,
    certificate: Certificate | str | Path,
    *,
    spark: SparkSession | None = None,
) -> Checked:
    """Compute certified results again from the log alone, and compare. `certificate` may be the path of its file."""
    require_pipeline_and_output("check_certificate", pipeline, output)
    kinds = (certificates.Certificate, str, Path)
    require_kind("check_certificate", kinds, "a Certificate, or the path of one", certificate=certificate)
    if isinstance(certificate, str | Path):
        certificate = certificates.read_certificate(Path(certificate))
    return certificates.check(pipeline, output, certificate, spark)


def plan_rebuild(
    pipeline: Pipeline,
    output: str,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    last: str | None = None,
    spark: SparkSession | None = None,
    watch: Watch = lambda _: None,
) -> Rebuild:
    """What computing windows again from the log would change. Nothing is published; the plan is kept.

    The windows are those that start in [since, until). With `last`, such as "4h", they are those that ended, or got
    late events, within that time before the watermark.
    """
    from latecomer.after.rebuild import rebuilding

    first, end = _windows("plan_rebuild", pipeline, output, since, until, last)
    return rebuilding.plan(pipeline, output, first, end, spark=spark, watch=watch)


def apply_rebuild(
    pipeline: Pipeline,
    output: str,
    *,
    plan: Rebuild | str | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    last: str | None = None,
    spark: SparkSession | None = None,
    watch: Watch = lambda _: None,
) -> Applied:
    """Publish what a rebuild changes: of a plan, or of a range of windows as in `plan_rebuild`.

    While a run has the store, that run publishes it; else this call does.
    """
    from latecomer.after.rebuild import rebuilding

    if plan is None:
        first, end = _windows("apply_rebuild", pipeline, output, since, until, last)
        return rebuilding.apply(pipeline, output, first, end, spark=spark, watch=watch)
    require_pipeline_and_output("apply_rebuild", pipeline, output)
    if (since, until, last) != (None, None, None):
        raise refused_argument(
            "apply_rebuild", "plan", "has a range of its own", "leave since, until and last out", plan
        )
    plan_id = plan if isinstance(plan, str) else plan.id
    return rebuilding.apply(pipeline, output, plan_id=plan_id, spark=spark, watch=watch)


# Arguments


def _texts(call: str, name: str, given: Sequence[str]) -> Sequence[str]:
    require_kind(call, (list, tuple), 'texts in a list, such as ["region"]', **{name: given})
    require_kind(call, str, "text", **{f"{name} {nth}": each for nth, each in enumerate(given)})
    return given


def require_pipeline_and_output(call: str, pipeline: Pipeline, output: str) -> None:
    require_pipeline(call, pipeline)
    require_kind(call, str, "the name of an output", output=output)
    require_output(pipeline, output)


def _refusal(call: str, **given: object) -> Refused:
    return lambda name, reason, fix: refused_argument(call, name, reason, fix, given[name])


def moment_of(call: str, name: str, pipeline: Pipeline, output: str, given: Moment) -> datetime:
    fix = "give a datetime, or ISO-8601 text such as 2026-04-25T14:00:00Z"
    if isinstance(given, datetime):
        return given
    try:
        return to_moment(read(given, zone_of(pipeline.outputs[output].window)))
    except (AttributeError, TypeError, ValueError, OverflowError):
        raise refused_argument(call, name, "is not a moment", fix, given) from None


def _range(
    call: str, pipeline: Pipeline, output: str, since: Moment | None, until: Moment | None
) -> tuple[datetime | None, datetime | None]:
    first = None if since is None else moment_of(call, "since", pipeline, output, since)
    end = None if until is None else moment_of(call, "until", pipeline, output, until)
    require_order(first, end, "since", "until", _refusal(call, until=until))
    return first, end


def _windows(
    call: str,
    pipeline: Pipeline,
    output: str,
    since: Moment | None,
    until: Moment | None,
    last: str | None,
) -> tuple[int | None, int | None]:
    require_pipeline_and_output(call, pipeline, output)
    first, end = _range(call, pipeline, output, since, until)
    from latecomer.after.rebuild.ranges import RangeNames, range_asked

    refused = _refusal(call, since=since, last=last)
    return range_asked(pipeline, output, first, end, last, RangeNames(), refused)


_Choice = TypeVar("_Choice", bound=StrEnum)


def _choice(call: str, name: str, kind: type[_Choice], given: str) -> _Choice:
    try:
        return kind(given)
    except ValueError:
        raise refused_argument(
            call, name, "is not known", f"choose one of {', '.join(kind)}", given
        ) from None


def by_spark(*arguments: Any) -> Any:
    """Derived columns that only Spark can compute."""
    from latecomer.windowing.derived import derived_values  # Spark is loaded only where it is needed

    return derived_values(*arguments)
