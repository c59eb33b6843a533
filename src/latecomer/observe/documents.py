"""What is made from the inventory and the alerts: a table for people, rules for Prometheus, a dashboard for Grafana."""

from __future__ import annotations

import json
from typing import Any

import yaml

from latecomer.model.durations import format_duration
from latecomer.observe.alerts import ALERTS, BACKFILL, DURING_BACKFILL, Severity
from latecomer.observe.inventory import METRICS, STAGES, Kind, Metric, full_name

UID = "latecomer"


def metrics_table() -> str:
    """The inventory as Markdown."""
    lines = ["| metric | kind | labels | meaning |", "| --- | --- | --- | --- |"]
    for stage in STAGES:
        lines.append(f"| **{stage}** | | | |")
        lines += [_line(metric) for metric in METRICS if metric.stage == stage]
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
                "summary": f"{named}: a spike, while a backfill works",
                "description": "this is what a backfill looks like; nobody has to do anything",
            },
        }
    )
    head = "# Made by `latecomer metrics rules`. Edit the alerts in the source, not this file.\n"
    return head + yaml.safe_dump(
        {"groups": [{"name": "latecomer", "rules": written}]}, sort_keys=False, width=120, allow_unicode=True
    )


# The dashboard: one row a stage, one panel a metric


def dashboard() -> str:
    """The dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    y = 0
    for stage in STAGES:
        panels.append(_row(stage, y))
        y += 1
        shown = [metric for metric in METRICS if metric.stage == stage]
        for nth, metric in enumerate(shown):
            panels.append(_panel(metric, len(panels) + 1, 12 * (nth % 2), y + 8 * (nth // 2)))
        y += 8 * ((len(shown) + 1) // 2)
    document = {
        "uid": UID,
        "title": "latecomer",
        "schemaVersion": 39,
        "editable": True,
        "tags": ["latecomer"],
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [_data_source(), _pipelines()]},
        "annotations": {"list": [_backfills()]},
        "panels": panels,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus"}


def _pipelines() -> dict[str, Any]:
    query = "label_values(latecomer_run_info, pipeline)"
    return {
        "name": "pipeline",
        "type": "query",
        "datasource": _SOURCE,
        "query": query,
        "definition": query,
        "multi": True,
        "includeAll": True,
        "refresh": 2,
    }


def _backfills() -> dict[str, Any]:
    return {
        "name": "backfills",
        "datasource": _SOURCE,
        "enable": True,
        "expr": 'latecomer_backfill_under_way{pipeline=~"$pipeline"} == 1',
        "titleFormat": "backfill: {{kind}}",
        "iconColor": "blue",
    }


def _row(stage: str, y: int) -> dict[str, Any]:
    place = {"h": 1, "w": 24, "x": 0, "y": y}
    return {"type": "row", "title": stage, "collapsed": False, "gridPos": place, "panels": []}


def _panel(metric: Metric, number: int, x: int, y: int) -> dict[str, Any]:
    legend = " ".join(f"{{{{{name}}}}}" for name in ("pipeline", *metric.labels))
    return {
        "id": number,
        "type": "timeseries",
        "title": metric.name.removesuffix("_total"),
        "description": metric.help,
        "datasource": _SOURCE,
        "gridPos": {"h": 8, "w": 12, "x": x, "y": y},
        "fieldConfig": {"defaults": {"unit": _unit(metric)}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + nth), "expr": expr, "legendFormat": f"{legend} {name}".strip()}
            for nth, (name, expr) in enumerate(_queries(metric))
        ],
    }


def _queries(metric: Metric) -> list[tuple[str, str]]:
    name, which = full_name(metric), '{pipeline=~"$pipeline"}'
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
