"""The testing kit and pipelines of several sources."""

from __future__ import annotations

import pytest

from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError
from latecomer.testing import Scenario, play


def shop() -> Pipeline:
    source = {"files": {"path": "in", "order_by": "seen"}, "schema": {"at": "string", "seen": "string"}}
    return Pipeline.model_validate(
        {
            "name": "shop",
            "store": "store",
            "sources": {"app": source, "pos": source},
            "event": {"time": "at"},
            "watermark": {"delay": "0s"},
            "outputs": {"all": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)"}}},
        }
    )


def test_several_sources_are_refused() -> None:
    with pytest.raises(PipelineError, match="plays pipelines of one source"):
        play(shop(), Scenario().event("14:00"))
