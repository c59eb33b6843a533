"""What a release of latecomer may be installed with: bounded from above, and what the pins say."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WRITTEN = [
    *PROJECT["dependencies"],
    *PROJECT["optional-dependencies"]["postgres"],
    *PROJECT["optional-dependencies"]["registry"],
]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def test_every_dependency_has_an_upper_bound_but_the_time_zones() -> None:
    """The next major version may not work. Of time zones the newest are right."""
    assert [each for each in WRITTEN if "<" not in each] == ["tzdata>=2025.1"]


def test_what_is_pinned_is_within_the_bounds() -> None:
    pinned = re.findall(
        r"(?m)^([\w-]+)==([\d.]+)", (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8")
    )
    checked = set()
    for each in WRITTEN:
        match = re.fullmatch(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)(?:,<([\d.]+))?", each)
        assert match is not None, each
        name, low, high = match.groups()
        for version in [version for package, version in pinned if package == name]:
            assert _numbers(low) <= _numbers(version), each
            assert high is None or _numbers(version) < _numbers(high), each
            checked.add(name)
    assert len(checked) == len(WRITTEN)
