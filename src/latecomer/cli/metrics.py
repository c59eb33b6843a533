"""`latecomer metrics`: the metrics and alerts of a run, as documents for people and for other programs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


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
