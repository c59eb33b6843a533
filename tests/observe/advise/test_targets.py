"""Advice under targets: what is advised meets them whenever a setting does, and says plainly when none does."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

import latecomer
from examples_kit import usual
from latecomer.model.lateness.advice import Tried, Wish, delay_under
from latecomer.model.lateness.sweep import WhatIf
from latecomer.observe.advise.page import Advice

SECOND, MINUTE = 1_000_000, 60_000_000
WINDOW = {"event_time": "at", "arrival": "seen", "unit": "us", "window": "10s"}


def arrivals(folder: Path, rng: Random) -> Path:
    """Events for some minutes: most come soon, some late, by any spread."""
    usually, seldom, share = rng.uniform(0.1, 4), rng.uniform(1, 30), rng.uniform(0, 0.2)
    file = folder / "arrivals.json"
    with open(file, "w", encoding="utf-8") as lines:
        for nth in range(1_500):
            at = 1_770_000_000 + nth * 0.2
            late = rng.expovariate(1 / (seldom if rng.random() < share else usually))
            row = {"at": int(at * SECOND), "seen": int((at + late) * SECOND)}
            lines.write(json.dumps(row) + "\n")
    return file


def asked(file: Path, **more: Any) -> Advice:
    found = latecomer.advise(str(file), **WINDOW, **more)
    assert isinstance(found, Advice)
    return found


def meets(answer: WhatIf, share: float, limit: int) -> bool:
    after = answer.published_after
    return answer.on_time_share >= share and after is not None and after <= limit


@pytest.mark.drawn
def test_what_is_advised_meets_the_targets_whenever_a_setting_does(tmp_path: Path) -> None:
    reached = 0
    for seed in range(usual.max_examples // 2):
        rng = Random(seed)
        file, share, limit = arrivals(tmp_path, rng), rng.choice((0.5, 0.8, 0.9, 0.99)), rng.randrange(1, 40)
        found = asked(
            file,
            target_completeness=share,
            max_latency=f"{limit}s",
            delays=[f"{500 * each}ms" for each in range(50)],
            lateness=["0s"],
        )
        (output,) = found.outputs
        advised = next(each for each in found.advised if each.field == "watermark.delay")
        assert output.advised.delay == advised.value
        possible = [each for each in output.settings if meets(each, share, limit * SECOND)]
        said = advised.reason.startswith("no delay meets what was asked for")
        assert meets(output.answer(output.advised), share, limit * SECOND) != said, advised
        assert not (possible and said), (seed, advised, possible)
        reached += not said
    assert reached > 0


def tried(*found: tuple[int, float, float | None]) -> list[Tried]:
    return [
        Tried(delay * SECOND, share, None if after is None else after * SECOND)
        for delay, share, after in found
    ]


CURVE = tried((0, 0.6, 1), (8, 0.9, 8.9), (11, 0.94, 11.9), (12, 0.953, 12.9), (13, 0.96, 13.9))


@pytest.mark.parametrize(
    ("wish", "delay", "said"),
    [
        (
            Wish(0.9, 12 * SECOND, asked=True),
            11,
            "8s to 11s meet what was asked for: 90 % on time and a first number within 12s",
        ),
        (
            Wish(0.9, MINUTE, asked=True),
            12,
            "8s to 13s meet what was asked for: 90 % on time and a first number within 1m",
        ),
        (
            Wish(0.95, 10 * SECOND, asked=True),
            8,
            "no delay meets what was asked for: with 8s, 90 % are on time and numbers come after 8s 900ms; 95 % would "
            "take a delay of 12s, with numbers after 12s 900ms",
        ),
        (
            Wish(0.99, 2 * SECOND),
            0,
            "no delay meets what was asked for: with 0s, 60 % are on time and numbers come after 1s; no delay has 99 % "
            "on time",
        ),
    ],
)
def test_the_range_is_said_and_the_rule(wish: Wish, delay: int, said: str) -> None:
    assert delay_under(CURVE, 12 * SECOND, wish) == (delay * SECOND, said)
