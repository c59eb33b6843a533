"""Metrics as a metrics server reads them, and stores that were made by hand."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from latecomer import Pipeline
from latecomer.observe.figures import Figures
from shop_kit import shop

ALERTS = "alerts: {lag: 1m}\n"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def watched_shop(folder: Path, more: str = "") -> Pipeline:
    """The shop, with a budget for its lag."""
    return shop(folder, more + ALERTS)


def samples(text: str) -> Samples:
    """Every value in the text, by name and labels without that of the pipeline."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted((k, v) for k, v in sample.labels.items() if k != "pipeline"))
            assert (sample.name, labels) not in found, "a series stands there twice"
            found[sample.name, labels] = sample.value
    return found


def read(figures: Figures) -> Samples:
    registry = CollectorRegistry()
    registry.register(figures)
    return samples(generate_latest(registry).decode())


def value(found: Samples, name: str, **labels: str) -> float:
    return found[f"latecomer_{name}", tuple(sorted(labels.items()))]


def get(url: str, headers: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Status and text of a page."""
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=dict(headers or {})), timeout=10
        ) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()
