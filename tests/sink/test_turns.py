"""Sinks of one process use a file one after the other."""

from __future__ import annotations

import threading

import pytest

from latecomer.sink import turns
from latecomer.sink.turns import Turn


class Interrupted:
    """A lock for which nobody waits to the end."""

    def acquire(self) -> None:
        raise KeyboardInterrupt


def test_waiting_that_is_interrupted_leaves_nothing_to_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its `__del__` runs, too: pytest would report an error in it."""
    monkeypatch.setitem(turns._LOCKS, "results.db", Interrupted())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        Turn("results.db")


def test_a_turn_ends_once() -> None:
    first = Turn("a.db")
    second: list[Turn] = []
    waiting = threading.Thread(target=lambda: second.append(Turn("a.db")), daemon=True)
    waiting.start()
    assert not second
    first.close()
    waiting.join(10)
    first.close()
    assert len(second) == 1
    second[0].close()
