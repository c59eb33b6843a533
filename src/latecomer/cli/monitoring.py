"""`latecomer status`, `latecomer check`, `latecomer dashboard`, `latecomer metrics`: how pipelines fare."""

from __future__ import annotations

import signal
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.options import File, Format, Formatted, Limit, Zoned, address_of, load, note, show

if TYPE_CHECKING:
    from latecomer.store.store import Store

EXIT_FIRING = 3
"""The exit code if an alert fires."""


def status(file: File, form: Formatted = Format.TABLE, limit: Limit = None, zone: Zoned = None) -> None:
    """Show how far each sink is: its last batch, how many it lacks, since when and why."""
    from latecomer.after.reading.reader import Reader
    from latecomer.cli.run_output import watermark_in_words
    from latecomer.sink.keeper import sink_status
    from latecomer.store.publications import wall_clock
    from latecomer.store.source_turns import sources_away
    from latecomer.store.store import open_store
    from latecomer.store.unknown_fields import LAST_BATCHES, unknown_in_last

    pipeline = load(file, zone)
    store = open_store(pipeline)
    show(sink_status(store), form, "the pipeline has no sinks", limit)
    note(holder_in_words(store))
    timeline = Reader(pipeline).timeline()
    if timeline is not None:
        note(watermark_in_words(timeline.watermark, timeline.last_at, wall_clock()))
    for away in sorted(sources_away(store.root)):
        named = f"source {away}" if away else "the source"
        note(f"{named} could not be asked, or has not caught up since: no silence counts")
    if any(view.source.unknown_fields == "keep" for view in pipeline.views.values()):
        seen = unknown_in_last(store)
        if seen.events:
            note(f"in the last {LAST_BATCHES} batches, {seen.in_words}")


def holder_in_words(store: Store) -> str:
    """Who has the store, since when, and by which token."""
    from latecomer.model.zoned import written
    from latecomer.store.holding.lock import holder_of, is_leased, lease_of

    found, record = holder_of(store.root), lease_of(store.root) if is_leased(store.root) else None
    if found is None:
        return "no run has the store" + (
            "" if record is None else f"; its last lease had token {record.token}"
        )
    who, since = found
    token = "" if record is None else f", by the lease with token {record.token}"
    silent = ""
    if record is not None and not record.gives_signs(time.time()):
        silent = f"; it has given no sign of life since {written(round(record.renewed_seconds * 1_000_000))}"
    return f"{who} has the store since {written(round(since * 1_000_000))}{token}{silent}"


def check(file: File, form: Formatted = Format.TABLE, limit: Limit = None) -> None:
    """Show whether an alert fires, from the store alone. Exit 0: none does; 3: one does; 1: the check failed."""
    from latecomer.observe import check as checking

    verdicts = checking.check(load(file))
    rows = checking.as_words(verdicts) if form is Format.TABLE else checking.as_table(verdicts)
    show(rows, form, "there is nothing to check", limit)
    if checking.is_firing(verdicts):
        raise typer.Exit(EXIT_FIRING)


def dashboard(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="The pipeline files.")],
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="[HOST:]PORT",
            help="Serve the page there; 0 is a free port. Another host than this machine needs "
            "LATECOMER_DASHBOARD_TOKEN.",
        ),
    ] = "9465",
    zone: Zoned = None,
) -> None:
    """Serve a page that shows what pipelines do now, their windows, lateness, ledgers, and why a number is what it is.

    It only reads the stores, so it also works for a pipeline that runs elsewhere or has stopped. Ctrl-C ends it.
    """
    from latecomer.cli.steps import current
    from latecomer.observe.dashboard.page_server import Dashboard

    host, port = address_of("--listen", listen, 9465)
    with Dashboard([load(file, zone) for file in files], host, port, zone) as served:
        current().rest()
        typer.echo(f"dashboard: {served.url}")
        previous = signal.signal(signal.SIGTERM, _end)
        try:
            served.wait()
        except KeyboardInterrupt:
            return
        finally:
            signal.signal(signal.SIGTERM, previous)


def _end(*_: object) -> None:
    raise KeyboardInterrupt


class Document(StrEnum):
    """What can be printed."""

    DOCS = "docs"
    ALERTS = "alerts"
    GRAFANA = "grafana"
    RULES = "rules"


def metrics(
    what: Annotated[
        Document,
        typer.Argument(
            metavar="[docs|alerts|grafana|rules]",
            help="The table of all metrics or alerts, a dashboard for Grafana, or rules for Prometheus.",
        ),
    ] = Document.DOCS,
) -> None:
    """Print the metrics that `run --metrics` serves: as a table, a Grafana dashboard or Prometheus rules."""
    from latecomer.observe import documents

    print_of = {
        Document.DOCS: documents.metrics_table,
        Document.ALERTS: documents.alerts_table,
        Document.GRAFANA: documents.dashboard,
        Document.RULES: documents.rules,
    }
    typer.echo(print_of[what](), nl=False)
