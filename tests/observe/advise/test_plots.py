"""Plots: every label is within the picture, and no name of a line lies over a bar."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise, permutations

import pytest

from latecomer.observe.advise.plots import HEIGHT, WIDTH, curves, histogram

SECOND = 1_000_000
TOP = 50
LETTER = 7.5
"""No digit or letter of a label is wider."""


def texts(svg: str, kind: str) -> list[ET.Element]:
    return [each for each in ET.fromstring(svg).iter("text") if kind in (each.get("class") or "")]


def reach(text: ET.Element) -> tuple[float, float]:
    """Where a text begins and ends."""
    x, width = float(text.get("x", "0")), LETTER * len(text.text or "")
    start = {"end": x - width, "middle": x - width / 2}.get(text.get("text-anchor", ""), x)
    return start, start + width


@pytest.mark.parametrize("least", [0.0, 0.5, 0.9, 0.99, 0.995, 0.999, 0.9999, 0.99999, 0.9999999, 1.0])
def test_the_labels_of_an_axis_are_whole_and_differ(least: float) -> None:
    svg = curves("c", [("on time", [(0, least), (SECOND, 1.0)])], [("advised 1s", SECOND, "mark")], "delay")
    labels = [each for each in texts(svg, "tick") if (each.text or "").endswith("%")]
    assert len({each.text for each in labels}) == 5
    assert labels[-1].text == "100 %"
    assert all(reach(each)[0] >= 0 for each in labels)
    dots = [float(each.get("cy", "-1")) for each in ET.fromstring(svg).iter("circle")]
    assert all(0 <= each <= HEIGHT - 40 for each in dots)
    assert dots[0] >= dots[1]


@pytest.mark.parametrize("marks", [(3, 2), (150, 7), (600, 598), (100_000, 1), (2, 100_000), (0, 0)])
def test_names_of_lines_are_above_the_bars(marks: tuple[int, int]) -> None:
    bars = [(SECOND * 2**n, SECOND * 2 ** (n + 1) - 1, 10 + n) for n in range(18)]
    named = [
        (f"advised {marks[0]}s", marks[0] * SECOND, "mark"),
        (f"elbow {marks[1]}s", marks[1] * SECOND, "bend"),
    ]
    svg = histogram("h", bars, named, "delay")
    highest = min(float(each.get("y", "0")) for each in ET.fromstring(svg).iter("rect"))
    names = texts(svg, "-name")
    assert len(names) == 2
    for each in names:
        assert float(each.get("y", "0")) < highest
        assert reach(each)[0] >= 0
        assert reach(each)[1] <= WIDTH
    assert names[0].get("y") != names[1].get("y")


@pytest.mark.parametrize("marks", [(30, 0, 0), (30, 60, 45), (0, 0, 0), (100_000, 90_000, 1)])
def test_three_names_are_above_the_bars_and_beside_the_levels(marks: tuple[int, ...]) -> None:
    bars = [(0, 0, 5_000), *((SECOND * 2**n, SECOND * 2 ** (n + 1) - 1, 10 + n) for n in range(18))]
    named = [
        (f"{name} {at}s", at * SECOND, name) for name, at in zip(("now", "mark", "bend"), marks, strict=True)
    ]
    svg = histogram("h", bars, named, "delay")
    names, levels = (
        texts(svg, "-name"),
        [each for each in texts(svg, "tick") if each.get("text-anchor") == "end"],
    )
    rows = sorted(float(each.get("y", "0")) for each in names)
    assert all(after - before >= 14 for before, after in pairwise(rows)), "each in a row of its own"
    for each in names:
        assert float(each.get("y", "0")) <= TOP
        assert reach(each)[0] >= max(float(level.get("x", "0")) for level in levels)


def test_no_line_goes_through_a_name() -> None:
    bars = [(0, 0, 5_000), *((SECOND * 2**n, SECOND * 2 ** (n + 1) - 1, 10 + n) for n in range(18))]
    for marks in permutations([1, 30, 1800, 3058, 20_000, 158_400], 3):
        named = [
            (f"{name} {at}s", at * SECOND, name)
            for name, at in zip(("now", "mark", "bend"), marks, strict=True)
        ]
        svg = histogram("h", bars, named, "delay")
        lines = [
            each for each in ET.fromstring(svg).iter("line") if each.get("class") in ("now", "mark", "bend")
        ]
        assert len(lines) == 3
        for name in texts(svg, "-name"):
            left, right = reach(name)
            through = [
                line.get("class")
                for line in lines
                if left < float(line.get("x1", "0")) < right
                and float(line.get("y1", "0")) < float(name.get("y", "0")) - 2
            ]
            assert through == [], (marks, name.text)
