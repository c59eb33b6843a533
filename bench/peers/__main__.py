"""`make bench-peers`: the same events through latecomer and its peers, one after the other, in one run.

Each peer's numbers are held against a plain count. One that cannot be installed is left out, with the reason.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from bench.peers import feed
from bench.peers.checking import Truth, truth, verdict
from bench.peers.engines import ENGINES, Engine, Task
from bench.peers.environments import NotHere
from bench.processes import Failed, console, work_folder
from bench.record import Found, mib, record, save, table
from bench.workload import in_order, write_events
from latecomer.errors import MachineError
from latecomer.spark.session import build_session


def compare(source: Path, events: int, names: list[str]) -> Found:
    true = truth(feed.files(source))
    made = table(
        f"{events:,} events, 1-minute windows, 10k keys, 0.5 % very late",
        *("engine", "rows/s", "peak memory", "latecomer / it", "its numbers", "what it does not do"),
    )
    found = Found([made], figures={})
    for name in names:
        console.print(f"{name} …")
        result = found.figures[name] = tried(ENGINES[name], source, events, true)
        if "seconds" not in result:
            made.add_row(name, "", "", "", result["skipped"], "")
            continue
        ratio = result["seconds"] / found.figures["latecomer"]["seconds"]
        if name != "latecomer":
            found.ratios[f"latecomer / {name}"] = ratio
        rate = f"{events / result['seconds']:,.0f}"
        made.add_row(name, rate, mib(result["peak"]), f"{ratio:.2f}", result["numbers"], ENGINES[name].lacks)
    return found


def tried(engine: Engine, source: Path, events: int, true: Truth) -> dict[str, Any]:
    """What an engine took and whether its numbers are right; or why it was left out."""
    with work_folder() as work:
        task = Task(source, events, work)
        try:
            result = engine.run(task)
        except (NotHere, MachineError) as reason:
            return {"skipped": f"not here: {reason}"}
        except Failed as error:
            console.print(str(error))
            return {"skipped": str(error).splitlines()[0]}
        return {**result, "numbers": verdict(engine.numbers(task), true)}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__)
    parser.add_argument("--events", type=int, default=3_000_000)
    parser.add_argument("--only", nargs="+", choices=[name for name in ENGINES if name != "latecomer"])
    asked = parser.parse_args()
    names = [name for name in ENGINES if name == "latecomer" or not asked.only or name in asked.only]
    with work_folder() as folder:
        spark = build_session("bench events")
        write_events(spark, folder / "events", asked.events)
        spark.stop()
        in_order(folder / "events")
        found = compare(folder / "events", asked.events, names)
    console.print(*found.tables)
    console.print(f"written to {save(record(asked.events, {'peers': found}))}")


if __name__ == "__main__":
    main()
