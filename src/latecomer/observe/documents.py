"""Documents made from the inventory and the alerts: Markdown tables, rules for Prometheus, a dashboard for Grafana."""

from __future__ import annotations

import json
from typing import Any

import yaml

from latecomer.model.durations import format_duration
from latecomer.observe.alerts import ALERTS, BACKFILL, DURING_BACKFILL, Severity
from latecomer.observe.inventory import STAGES, Kind, Metric, full_name

UID = "latecomer"


def metrics_table() -> str:
    """The inventory as Markdown."""
    lines = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for stage, metrics in STAGES.items():
        lines.append(f"| **{stage}** | | | |")
        lines += map(_line, metrics)
    return "\n".join(lines) + "\n"


def _line(metric: Metric) -> str:
    labels = ", ".join(f"`{name}`" for name in metric.labels) or "-"
    return f"| `{full_name(metric)}` | {metric.kind} | {labels} | {metric.help} |"


def alerts_table() -> str:
    """The alerts as Markdown."""
    lines = ["| `latecomer check` | rule | for | severity | fires when |", "| --- | --- | --- | --- | --- |"]
    lines += [
        f"| `{each.name}` | `{each.rule}` | {format_duration(each.hold)} | {each.severity} | {each.summary} |"
        for each in ALERTS
    ]
    return "\n".join(lines) + "\n"


def rules() -> str:
    """The rules as Prometheus loads them."""
    named = "{{ $labels.pipeline }}"
    of_output = ", output {{ $labels.output }}"
    written: list[dict[str, Any]] = [
        {
            "alert": each.rule,
            "expr": each.expression,
            **({"for": format_duration(each.hold)} if each.hold else {}),
            "labels": {"severity": each.severity.value},
            "annotations": {
                "summary": f"{named}{of_output if each.of_outputs else ''}: {each.summary}",
                "description": each.advice,
            },
        }
        for each in ALERTS
    ]
    spikes = " or ".join(f"({each.holds})" for each in ALERTS if each.spike)
    written.append(
        {
            "alert": DURING_BACKFILL,
            "expr": f"({spikes}) and on (pipeline) {BACKFILL}",
            "labels": {"severity": Severity.INFO.value},
            "annotations": {
                "summary": f"{named}: a spike, while a backfill runs",
                "description": "a backfill explains the spike; nobody has to do anything",
            },
        }
    )
    head = "# Made by `latecomer metrics rules`. Edit the alerts in the source, not this file.\n"
    return head + yaml.safe_dump(
        {"groups": [{"name": "latecomer", "rules": written}]}, sort_keys=False, width=120, allow_unicode=True
    )


# The dashboard: the three signals, now and over 30 days; then one row a stage, one panel a metric

_ROWS = {
    "source": "Source: how far it is read",
    "log": "Event log: what was read, and how late it came",
    "timeline": "Watermark: where it stands, and what holds it back",
    "firing": "Panes and corrections",
    "ledger": "Ledger: what became of events",
    "batch": "Batches and Spark",
    "sink": "Sinks",
    "store": "Store",
    "run": "Run",
}
_ALL = '{pipeline=~"$pipeline"}'


def dashboard() -> str:
    """The dashboard as Grafana imports it."""
    month = [{**panel, "timeFrom": "30d"} for panel in _signals("1d")]
    rows = [
        ("The three signals, now", _signals("15m")),
        ("The three signals, 30 days", month),
        *((_ROWS[stage], [_of_metric(each) for each in metrics]) for stage, metrics in STAGES.items()),
    ]
    panels: list[dict[str, Any]] = []
    y = 0
    for title, shown in rows:
        panels.append(_row(title, y))
        across = 3 if len(shown) == 3 else 2
        for nth, panel in enumerate(shown):
            width = 24 // across
            place = {"h": 8, "w": width, "x": width * (nth % across), "y": y + 1 + 8 * (nth // across)}
            panels.append({"id": len(panels) + 1, **panel, "gridPos": place})
        y += 1 + 8 * -(-len(shown) // across)
    document = {
        "uid": UID,
        "title": "latecomer",
        "schemaVersion": 39,
        "editable": True,
        "tags": ["latecomer"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}, _PIPELINES]
        },
        "annotations": {"list": [_BACKFILLS]},
        "panels": panels,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


_EVERY_PIPELINE = "label_values(latecomer_run_info, pipeline)"
_PIPELINES = {
    "name": "pipeline",
    "type": "query",
    "datasource": _SOURCE,
    "query": _EVERY_PIPELINE,
    "definition": _EVERY_PIPELINE,
    "multi": True,
    "includeAll": True,
    "refresh": 2,
}
_BACKFILLS = {
    "name": "backfills",
    "datasource": _SOURCE,
    "enable": True,
    "expr": f"latecomer_backfill_under_way{_ALL} == 1",
    "titleFormat": "backfill: {{kind}}",
    "iconColor": "blue",
}


def _row(title: str, y: int) -> dict[str, Any]:
    place = {"h": 1, "w": 24, "x": 0, "y": y}
    return {"type": "row", "title": title, "collapsed": False, "gridPos": place, "panels": []}


Queries = list[tuple[str, str]]
"""The legend of each line, and its PromQL."""


def _signals(window: str) -> list[dict[str, Any]]:
    """The panels of the three signals, side by side; shares are of the events received in `window`."""
    by, of = "{{pipeline}} {{output}}", "sum by (pipeline, output)"
    aside = f'{of} (increase(latecomer_events_total{{fate="side_output", pipeline=~"$pipeline"}}[{window}]))'
    received = f"({of} (increase(latecomer_received_total{_ALL}[{window}])) > 0)"
    lag: Queries = [
        ("{{pipeline}}", f"latecomer_watermark_lag_seconds{_ALL}"),
        ("{{pipeline}} limit", f"latecomer_watermark_lag_budget_seconds{_ALL}"),
    ]
    corrections = "Numbers corrected after their window closed, for each event of the last 7 days."
    return [
        _panel("Watermark lag", "Wall clock less the watermark, and its limit, alerts.lag.", "s", lag),
        _panel(
            "Share of side output",
            f"Events that were set aside, of those received in {window}.",
            "percentunit",
            [(by, f"{aside} / {received}")],
        ),
        _panel(
            "Corrections for each event",
            corrections,
            "percentunit",
            [(by, f"latecomer_corrections_ratio{_ALL}")],
        ),
    ]


def _of_metric(metric: Metric) -> dict[str, Any]:
    legend = " ".join(f"{{{{{name}}}}}" for name in ("pipeline", *metric.labels))
    queries = [(f"{legend} {name}".strip(), expr) for name, expr in _queries(metric)]
    return _panel(metric.title, metric.help, _unit(metric), queries)


def _panel(title: str, description: str, unit: str, queries: Queries) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "description": description,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + nth), "expr": expr, "legendFormat": legend}
            for nth, (legend, expr) in enumerate(queries)
        ],
    }


def _queries(metric: Metric) -> Queries:
    name, which = full_name(metric), _ALL
    if metric.kind is Kind.GAUGE:
        return [("", f"{name}{which}")]
    if metric.kind is Kind.COUNTER:
        return [("per minute", f"60 * rate({name}{which}[$__rate_interval])")]
    by = ", ".join(("le", *metric.all_labels))
    return [
        (
            f"p{share}",
            f"histogram_quantile(0.{share}, sum by ({by}) (rate({name}_bucket{which}[$__rate_interval])))",
        )
        for share in (50, 99)
    ]


def _unit(metric: Metric) -> str:
    if metric.name.endswith("_timestamp_seconds"):
        return "dateTimeAsIso"
    units = {"seconds": "s", "bytes": "bytes", "ratio": "percentunit"}
    return next((unit for ending, unit in units.items() if metric.name.endswith(ending)), "short")
