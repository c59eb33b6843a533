"""`latecomer run`: the pipeline at work."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.json_log import JsonDisplay, LogFormat
from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Master,
    WrongUsage,
    Zoned,
    choose_zone,
    hush_spark,
    load,
    print_warnings,
    share_of,
)
from latecomer.errors import MachineError, StoreInUse

if TYPE_CHECKING:
    from latecomer.cli.progress import Progress
    from latecomer.config.models import Pipeline
    from latecomer.engine.ledger.report import BatchReport
    from latecomer.observe.serving import ServedMetrics


TOO_MANY_DEAD = 3
"""The exit code if a batch has more dead letters than --max-dead allows."""


def run(
    file: File,
    once: Annotated[bool, typer.Option("--once", help="Read all that is there, then stop.")] = False,
    drain: Annotated[
        bool, typer.Option("--drain", help="Likewise, and close every window: the input has ended.")
    ] = False,
    standby: Annotated[
        bool,
        typer.Option(
            "--standby", help="Wait while another run has the store, and take over when it stops or dies."
        ),
    ] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            metavar="[HOST:]PORT",
            help="Serve /metrics, /healthz and /readyz there meanwhile; 0 is a free port. Another host than this "
            "machine needs LATECOMER_METRICS_TOKEN.",
        ),
    ] = None,
    log: Annotated[
        LogFormat, typer.Option("--log", help="The format of what is written on standard error.")
    ] = LogFormat.TEXT,
    max_dead: Annotated[
        str | None,
        typer.Option(
            "--max-dead",
            metavar="SHARE",
            help="End with exit code 3 if more than this share of a batch's rows are dead letters, such as 5%. "
            "Without it, a batch of dead letters alone gets a warning.",
        ),
    ] = None,
    form: Formatted = Format.TABLE,
    zone: Zoned = None,
    master: Master = None,
) -> None:
    """Run the pipeline until stopped (Ctrl-C finishes the batch under way first)."""
    choose_zone(zone, file)
    most = None if max_dead is None else share_of("--max-dead", max_dead)
    pipeline = load(file)
    print_warnings(pipeline, file)
    serving = None if metrics is None else _served(pipeline, metrics)
    from latecomer.cli.progress import (
        Totals,
        dead_in_words,
        is_beyond,
        out_of_step_in_words,
        print_dead_letters,
        print_summary,
        progress,
    )
    from latecomer.cli.steps import current

    try:
        from latecomer.after.reading.reader import Reader
        from latecomer.after.serving.postgres import beside_a_run
        from latecomer.engine.running import run as run_pipeline
        from latecomer.spark.master import use_master

        use_master(master)
        hush_spark()
    except ImportError as error:
        raise MachineError(f"Spark cannot be imported ({error}); latecomer doctor says why") from error

    totals, stop = Totals(), threading.Event()
    display = current()
    show_batch, warned, too_many = progress(form, totals), set[str](), False
    if isinstance(display, JsonDisplay):
        show_batch = _as_json(display, show_batch if form is not Format.TABLE else None)

    def watch(report: BatchReport) -> None:
        nonlocal too_many
        totals.add(report)
        if serving is not None:
            serving.figures.batch(report)
        show_batch(report)
        too_many |= most is not None and is_beyond(report, most)
        warnings = {
            "order": out_of_step_in_words(report, None if pipeline.sources else pipeline.source.files),
            "dead": dead_in_words(report, most, file),
        }
        for kind, warning in warnings.items():
            if warning is not None and kind not in warned:
                warned.add(kind)
                current().line(warning)

    options = {"once": once, "drain": drain, "watch": watch, "stop": stop, "file": file, "standby": standby}
    try:
        if serving is None:
            report = beside_a_run(run_pipeline, pipeline, **options)
        else:
            with serving:
                display.line(f"metrics: {serving.url}")
                report = beside_a_run(run_pipeline, pipeline, begin=serving.figures.begin, **options)
    except StoreInUse as error:
        if not (standby and stop.is_set()):
            raise
        current().rest()
        print(error, file=sys.stderr)
        return
    current().rest()
    if stop.is_set():
        when = "before the first batch" if totals.last_batch is None else f"after batch {totals.last_batch}"
        print(f"stopped {when}; the store is consistent", file=sys.stderr)
    if form is Format.TABLE:
        print_summary(totals, report)
    print_dead_letters(totals, Reader(pipeline), form, file)
    if not display.quiet:
        print(report.work.in_words, file=sys.stderr)
    if too_many:
        raise typer.Exit(TOO_MANY_DEAD)


def _as_json(display: JsonDisplay, also: Progress | None) -> Progress:
    """Show each batch in the log, and also in the way of `also`."""
    from latecomer.cli.progress import as_json

    def show_batch(report: BatchReport) -> None:
        display.say("info", "batch", **as_json(report))
        if also is not None:
            also(report)

    return show_batch


def _served(pipeline: Pipeline, written: str) -> ServedMetrics:
    """The server of the metrics. An address that cannot be served is reported before Spark starts."""
    from latecomer.observe.serving import ServedMetrics, address_of

    try:
        host, port = address_of(written)
    except ValueError as error:
        fix = "write a port such as 9464, or a host and a port such as 0.0.0.0:9464"
        raise WrongUsage("--metrics", written, str(error), fix) from None
    return ServedMetrics(pipeline, host, port)
