"""The seconds of a batch are counted for the stage in which they pass."""

from __future__ import annotations

from unittest.mock import MagicMock, patch

from latecomer.engine.rebuilds import publish_repaired
from latecomer.windowing.firing.output import FiringBatch


def test_taking_in_dead_letters_again_is_not_counted_as_windowing() -> None:
    engine, rebuilds = MagicMock(), "latecomer.engine.rebuilds"
    with (
        patch(f"{rebuilds}.moved_letters"),
        patch(f"{rebuilds}.repaired_amounts"),
        patch.object(FiringBatch, "of_logged"),
    ):
        publish_repaired(engine, 3, [])
    assert list(engine.accepted.call_args.args[2].seconds) == ["log", "timeline"]
