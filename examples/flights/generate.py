"""A year of flights out of New York, made up: the shape of the well-known data set, not its rows.

    python generate.py --to data                     336,776 flights of 2013 as JSON lines
    python generate.py --to data --rows 5000 --format csv

One row a flight, reported when it has landed or has been cancelled. Times are what clocks in New York showed,
without an offset, so that an hour of November comes twice. The same seed makes the same rows in every format.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import TypeVar
from zoneinfo import ZoneInfo

Key = TypeVar("Key")
ROWS = 336_776
NEW_YORK = ZoneInfo("America/New_York")
ORIGINS = {"EWR": 120_835, "JFK": 111_279, "LGA": 104_662}
CARRIERS = {
    "UA": 58_665, "B6": 54_635, "EV": 54_173, "DL": 48_110, "AA": 32_729, "MQ": 26_397, "US": 20_536, "9E": 18_460,
    "WN": 12_275, "VX": 5_162, "FL": 3_260, "AS": 714, "F9": 685, "YV": 601, "HA": 342, "OO": 32,
}  # fmt: skip
MILES = {
    "ATL": 762, "BNA": 758, "BOS": 190, "BUF": 297, "CLT": 541, "DCA": 214, "DEN": 1_615, "DFW": 1_383, "DTW": 500,
    "FLL": 1_074, "IAD": 225, "IAH": 1_407, "LAS": 2_241, "LAX": 2_469, "MCO": 945, "MIA": 1_092, "MSP": 1_017,
    "ORD": 733, "PBI": 1_027, "PHX": 2_141, "RDU": 428, "SEA": 2_414, "SFO": 2_577, "SJU": 1_601, "TPA": 1_003,
}  # fmt: skip
HOURS = {
    5: 2, 6: 26, 7: 23, 8: 27, 9: 20, 10: 17, 11: 16, 12: 18, 13: 20, 14: 22, 15: 24, 16: 23, 17: 24, 18: 22,
    19: 21, 20: 17, 21: 11, 22: 3, 23: 1,
}  # fmt: skip
WEEKDAYS = (1.03, 1.02, 1.02, 1.02, 1.03, 0.80, 0.94)
YEAR = [date(2013, 1, 1) + timedelta(days=nth) for nth in range(365)]
CANCELLED, DIVERTED = 0.0245, 0.0035


@dataclass(frozen=True)
class Flight:
    """One row. A cancelled flight has no delays; a diverted one departed, and has no arrival delay."""

    carrier: str
    flight: int
    origin: str
    dest: str
    distance: int
    scheduled: datetime
    reported: datetime
    dep_delay: int | None
    arr_delay: int | None
    air_time: int | None

    def on_the_wall(self) -> dict[str, object]:
        """The row with the times that a clock in New York showed."""
        local = {
            name: getattr(self, name).astimezone(NEW_YORK).replace(tzinfo=None)
            for name in ("scheduled", "reported")
        }
        return {**asdict(self), **local}


def flights(rows: int, seed: int = 2013, days: Sequence[date] = YEAR) -> list[Flight]:
    """So many flights over the year, or over some days of it, in the order in which they were reported."""
    drawn = random.Random(seed)  # noqa: S311 - made-up data, the same every time
    made = [_flight(drawn, day) for day, count in _shared_out(rows, days) for _ in range(count)]
    return sorted(made, key=in_order)


def in_order(flight: Flight) -> tuple[datetime, datetime, str, int]:
    """What flights are sorted by: when they were reported."""
    return flight.reported, flight.scheduled, flight.carrier, flight.flight


def _shared_out(rows: int, days: Sequence[date]) -> Iterator[tuple[date, int]]:
    """Each day and its number of flights; together they are as many as asked for."""
    weights = [WEEKDAYS[day.weekday()] for day in days]
    whole, reached, given = sum(weights), 0.0, 0
    for day, weight in zip(days, weights, strict=True):
        reached += weight
        until = round(rows * reached / whole)
        yield day, until - given
        given = until


def _flight(drawn: random.Random, day: date) -> Flight:
    carrier, origin, hour = _one_of(drawn, CARRIERS), _one_of(drawn, ORIGINS), _one_of(drawn, HOURS)
    dest = "HNL" if carrier == "HA" else drawn.choice(list(MILES))
    miles = 4_972 if dest == "HNL" else MILES[dest]
    minute = drawn.choice(range(0, 60, 5))
    scheduled = datetime(day.year, day.month, day.day, hour, minute, tzinfo=NEW_YORK).astimezone(UTC)
    row = (carrier, drawn.randrange(1, 6_000), origin, dest, miles, scheduled)
    fate = drawn.random()
    if fate < CANCELLED:
        return Flight(*row, scheduled + timedelta(minutes=drawn.randrange(240)), None, None, None)
    departed = _departure_delay(drawn)
    in_air = max(20, round(18 + miles / 7.6 + drawn.gauss(0, 8)))
    arrived = departed + round(drawn.gauss(-6, 14))
    landed = scheduled + timedelta(minutes=max(in_air + 35 + arrived, in_air + departed + 5))
    if fate < CANCELLED + DIVERTED:
        return Flight(*row, landed + timedelta(minutes=drawn.randrange(60, 400)), departed, None, None)
    return Flight(*row, landed, departed, arrived, in_air)


def _departure_delay(drawn: random.Random) -> int:
    """Minutes: most leave a little early, a third is late by half an hour, a few by half a day and more."""
    share = drawn.random()
    if share < 0.60:
        return min(0, max(-43, round(drawn.gauss(-4, 3))))
    if share < 0.975:
        return 1 + int(drawn.expovariate(1 / 32))
    if share < 0.999:
        return min(1_301, 90 + int(drawn.expovariate(1 / 90)))
    return drawn.randrange(600, 1_302)


def _one_of(drawn: random.Random, shares: dict[Key, int]) -> Key:
    return drawn.choices(list(shares), weights=list(shares.values()))[0]


# Files: one for each month of reports, in the order in which they came


def write(made: Sequence[Flight], folder: Path, form: str) -> list[Path]:
    """The flights as files. Their modification times follow the reports, as if they had come that way."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for month, group in groupby(made, key=lambda each: f"{each.reported.astimezone(NEW_YORK):%Y-%m}"):
        rows = list(group)
        path = folder / f"flights-{month}.{'jsonl' if form == 'json' else form}"
        {"json": _write_json, "csv": _write_csv, "parquet": _write_parquet}[form](rows, path)
        came = rows[-1].reported.timestamp()
        os.utime(path, (came, came))
        written.append(path)
    return written


def _write_json(rows: Sequence[Flight], path: Path) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(_as_text(row)) + "\n" for row in rows)


def _write_csv(rows: Sequence[Flight], path: Path) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Flight)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_as_text, rows))


def _write_parquet(rows: Sequence[Flight], path: Path) -> None:
    """Times as timestamps without a zone. The one format that needs more than Python itself: pyarrow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    listed = [row.on_the_wall() for row in rows]
    kinds = {"carrier": pa.string(), "origin": pa.string(), "dest": pa.string()}
    kinds |= dict.fromkeys(("scheduled", "reported"), pa.timestamp("us"))
    columns = {
        name: pa.array([row[name] for row in listed], kinds.get(name, pa.int64())) for name in listed[0]
    }
    pq.write_table(pa.table(columns), path)


def _as_text(row: Flight) -> dict[str, object]:
    return {
        name: f"{value:%Y-%m-%d %H:%M}" if isinstance(value, datetime) else value
        for name, value in row.on_the_wall().items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="A year of flights out of New York, made up.")
    parser.add_argument("--to", type=Path, required=True, metavar="FOLDER", help="where the files go")
    parser.add_argument("--rows", type=int, default=ROWS, metavar="N", help=f"so many flights ({ROWS})")
    parser.add_argument("--format", choices=("json", "csv", "parquet"), default="json", help="(json)")
    parser.add_argument("--seed", type=int, default=2013, metavar="N", help="another year like it (2013)")
    given = parser.parse_args()
    made = flights(given.rows, given.seed)
    written = write(made, given.to, given.format)
    print(f"{len(made):,} flights in {len(written)} files in {given.to}")


if __name__ == "__main__":
    main()
