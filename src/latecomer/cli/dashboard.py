"""`latecomer dashboard`: one page in a browser, from the store alone."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from latecomer.cli.options import Zoned, address_of, choose_zone, load


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
    choose_zone(zone, files[0])
    with Dashboard([load(file) for file in files], host, port, zone) as served:
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
