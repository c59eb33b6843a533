"""One inventory: what is served, documented, drawn and alerted on cannot drift apart."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cli.cli_kit import Cli
from latecomer.observe.alerts import ALERTS
from latecomer.observe.documents import alerts_table, dashboard, metrics_table, rules
from latecomer.observe.inventory import BATCH_STAGES, METRICS, Kind, full_name

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def made_by(verb: str) -> str:
    found = re.search(rf"<!-- made by `{verb}` -->\n(.*?)<!-- end -->", DOCUMENT, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_document_has_the_inventory() -> None:
    assert made_by("latecomer metrics docs") == metrics_table(), "make it again: latecomer metrics docs"
    assert made_by("latecomer metrics alerts") == alerts_table()


@pytest.mark.parametrize(
    ("file", "made"), [("latecomer-rules.yaml", rules), ("latecomer-dashboard.json", dashboard)]
)
def test_the_files_are_what_the_inventory_makes(file: str, made: object) -> None:
    assert callable(made)
    kept = (ROOT / "examples" / "monitoring" / file).read_text(encoding="utf-8")
    assert kept == made(), "make it again: latecomer metrics rules, latecomer metrics grafana"


def test_every_metric_has_a_panel_and_no_panel_another() -> None:
    shown = json.loads(dashboard())
    panels = [panel for panel in shown["panels"] if panel["type"] != "row"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    asked = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    named = set(re.findall(r"latecomer_\w+", asked))
    expected = {
        full_name(metric) + ("_bucket" if metric.kind is Kind.HISTOGRAM else "") for metric in METRICS
    }
    assert named == expected
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in shown["panels"]]
    assert len(set(places)) == len(places), "no panel lies on another"


def test_panels_are_titled_in_words_and_stand_in_rows() -> None:
    """The three signals come first, side by side; then the same over 30 days; then stage by stage."""
    panels = json.loads(dashboard())["panels"]
    titles = [panel["title"] for panel in panels]
    assert [title for title in titles if "_" in title or not title[0].isupper()] == []
    rows = [nth for nth, panel in enumerate(panels) if panel["type"] == "row"]
    assert rows[0] == 0
    now, month = (panels[first + 1 : last] for first, last in ((rows[0], rows[1]), (rows[1], rows[2])))
    signals = ["Watermark lag", "Share of side output", "Corrections for each event"]
    for shown in (now, month):
        assert [panel["title"] for panel in shown] == signals
        assert len({panel["gridPos"]["y"] for panel in shown}) == 1, "beside one another"
    assert {panel["timeFrom"] for panel in month} == {"30d"}
    of_stages = titles[rows[2] :]
    assert len(set(of_stages)) == len(of_stages)


def test_names_follow_the_habits_of_prometheus() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    for metric in METRICS:
        assert re.fullmatch(r"[a-z][a-z_]*[a-z]", metric.name)
        assert metric.name.endswith("_total") is (metric.kind is Kind.COUNTER), metric.name
        assert bool(metric.buckets) is (metric.kind is Kind.HISTOGRAM), metric.name
        assert metric.help.endswith(".")


def test_the_stages_of_a_batch_are_those_of_the_flow() -> None:
    source = (ROOT / "src" / "latecomer" / "engine" / "pipeline.py").read_text(encoding="utf-8")
    assert set(re.findall(r'watch\.end\("(\w+)"\)', source)) == set(BATCH_STAGES)


@pytest.mark.parametrize(
    ("what", "made"), [("docs", metrics_table), ("rules", rules), ("grafana", dashboard)]
)
def test_the_verb_prints_them(what: str, made: object, cli: Cli) -> None:
    assert callable(made)
    said = cli("metrics", what)
    assert (said.status, said.out) == (0, made())


def test_every_alert_is_described() -> None:
    for alert in ALERTS:
        assert f"- **{alert.name}**: " in DOCUMENT
