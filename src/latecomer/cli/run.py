"""`latecomer run`: the pipeline at work."""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    Master,
    Zoned,
    address_of,
    hush_spark,
    load,
    print_warnings,
    share_of,
    source_paths,
)
from latecomer.cli.reporting import LogFormat
from latecomer.cli.steps import current
from latecomer.errors import MachineError, StoreInUse

if TYPE_CHECKING:
    from latecomer.cli.run_output import Watch

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
    display, stop = current(), threading.Event()
    watch: Watch | None = None
    try:
        pipeline = load(file, zone)
        most = None if max_dead is None else share_of("--max-dead", max_dead)
        print_warnings(pipeline, file, source_paths(pipeline))
        serving = None
        if metrics is not None:  # an address that cannot be served is reported before Spark starts
            from latecomer.observe.metrics_server import ServedMetrics

            serving = ServedMetrics(pipeline, *address_of("--metrics", metrics, 9464))
        try:
            from latecomer.after.reading.reader import Reader
            from latecomer.after.serving.views import beside_a_run
            from latecomer.cli import run_output
            from latecomer.engine.running import run as run_pipeline
            from latecomer.spark.master import use_master

            use_master(master)
            hush_spark()
        except ImportError as error:
            raise MachineError(f"Spark cannot be imported ({error}); latecomer doctor says why") from error

        watch = run_output.Watch(pipeline, file, form, most, serving)
        options = {"once": once, "drain": drain, "stop": stop, "file": file, "standby": standby}
        with serving or nullcontext():
            if serving is not None:
                display.line(f"metrics: {serving.url}")
                options["begin"] = serving.figures.begin
            report = beside_a_run(run_pipeline, pipeline, watch=watch, **options)
    except StoreInUse as error:
        if not (standby and stop.is_set()):
            raise
        display.rest()
        print(error, file=sys.stderr)
        return
    except KeyboardInterrupt:
        # Modules were loading, or Spark was starting or ending: between these, the run itself handles the signal.
        _print_stop(watch)
        raise
    display.rest()
    if stop.is_set():
        _print_stop(watch)
    if form is Format.TABLE:
        run_output.print_summary(watch.totals, report)
    run_output.print_dead_letters(watch.totals, Reader(pipeline), form, file)
    if not display.quiet:
        print(report.work.in_words, file=sys.stderr)
    if watch.too_many_dead:
        raise typer.Exit(TOO_MANY_DEAD)


def _print_stop(watch: Watch | None) -> None:
    current().rest()
    last = None if watch is None else watch.totals.last_batch
    when = "before the first batch" if last is None else f"after batch {last}"
    print(f"stopped {when}; the store is consistent", file=sys.stderr)
