"""What a run found, as JSON: ratios, figures and the machine; and whether a ratio has fallen against a kept one.

Every ratio says the same: the larger, the better for latecomer. That is what lets one rule judge them all.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
from rich.table import Table

RUNS = Path("build/bench")
KEPT = Path(__file__).with_name("kept.json")
MAY_FALL = 0.15
"""A ratio may be so much below the kept one: that much is noise."""


@dataclass
class Found:
    """What a case found: for the eye, for the check, and for whoever looks closer."""

    tables: list[Table] = field(default_factory=list)
    ratios: dict[str, float] = field(default_factory=dict)
    figures: Any = None


def table(title: str, *columns: str) -> Table:
    made = Table(title=title)
    for column in columns:
        made.add_column(column, justify="right")
    return made


def mib(size: float) -> str:
    return f"{size / 2**20:,.0f} MiB"


def record(events: int, found: Mapping[str, Found]) -> dict[str, Any]:
    """A run, as it is written down."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "events": events,
        "ratios": ratios_of(found),
        "figures": {name: each.figures for name, each in found.items()},
    }


def machine() -> dict[str, Any]:
    """What the figures depend on. Nothing in it names the machine, its user or a folder."""
    return {
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "processor": _processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "java": _first_line("java", "-version"),
        "spark": version("pyspark"),
        "latecomer": version("latecomer"),
        "commit": _first_line("git", "rev-parse", "--short", "HEAD"),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _first_line(*command: str) -> str | None:
    """What a program says first, wherever it says it; None where there is no such program, or it fails."""
    if not shutil.which(command[0]):
        return None
    said = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return said.stdout.splitlines()[0] if said.returncode == 0 and said.stdout else None


def save(made: Mapping[str, Any], path: Path | None = None) -> Path:
    """Write a run down: in a file of its own, unless another is named."""
    path = path or RUNS / f"{made['at'].replace(':', '').replace('+0000', 'Z')}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
    return path


def load(path: Path = KEPT) -> dict[str, Any]:
    if not path.exists():
        sys.exit(f"there is no {path.name}: `python -m bench --keep` measures and keeps one")
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


Ratios = Mapping[str, Mapping[str, float]]


def fallen(kept: Ratios, now: Ratios) -> dict[str, list[str]]:
    """Cases with a ratio that has fallen by more than `MAY_FALL` against the kept one, or is gone; with the reasons.

    >>> fallen({"throughput": {"1M rows": 2.0}}, {"throughput": {"1M rows": 1.75}})
    {}
    >>> fallen({"throughput": {"1M rows": 2.0}}, {"throughput": {"1M rows": 1.6}})
    {'throughput': ['1M rows: 1.60, and 2.00 is kept (20 % less)']}
    """
    found: dict[str, list[str]] = {}
    for case, ratios in kept.items():
        for name, before in ratios.items():
            after = now.get(case, {}).get(name)
            if after is None:
                found.setdefault(case, []).append(f"{name}: not measured, and {before:.2f} is kept")
            elif after < before * (1 - MAY_FALL):
                less = f"{1 - after / before:.0%}".replace("%", " %")
                found.setdefault(case, []).append(
                    f"{name}: {after:.2f}, and {before:.2f} is kept ({less} less)"
                )
    return found


def checked(kept: Ratios, measure: Callable[[list[str]], Mapping[str, Found]]) -> dict[str, Found]:
    """Every case that is kept, measured. One with a fallen ratio is measured once more, and the better counts."""
    found = dict(measure(list(kept)))
    again = fallen(kept, ratios_of(found))
    for case, second in (measure(list(again)) if again else {}).items():
        first = found[case].ratios
        second.ratios = {name: max(first.get(name, ratio), ratio) for name, ratio in second.ratios.items()}
        found[case] = second
    return found


def ratios_of(found: Mapping[str, Found]) -> dict[str, dict[str, float]]:
    """The ratios of every case that has some."""
    rounded = {
        case: {name: round(ratio, 3) for name, ratio in each.ratios.items()} for case, each in found.items()
    }
    return {case: ratios for case, ratios in rounded.items() if ratios}
