"""26 May 2024, the IPL final: an edge is down from 19:32 to 19:54 IST, and phones buffer what they saw.

When it is back, the phones flush in waves over eleven minutes, long after most of these minutes were closed and
published; some phones stay silent until the next morning. In each of the 22 minutes, 30 to 40 % of the views were
buffered. `scale=1` is the evening in full size: 14,000,000 buffered views, 900,000 of which come the next morning.
The figures are drawn from a fixed seed: every run is the same.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from latecomer.cli.stories.shared import write_part

START = datetime(2024, 5, 26, 14, 0, tzinfo=UTC)  # 19:30 IST
DOWN_FROM, DOWN_UNTIL, LAST = 2, 24, 37
"""In minutes after the start: the edge is down, is up again, and the evening's file ends."""
MORNING = (12 * 60 + 15, 12 * 60 + 35)  # 07:45 to 08:05 IST
OUTPUT = "ticket_views"
BUFFERED, NEXT_MORNING = 14_000_000, 900_000
A_MINUTE, A_MORNING_MINUTE = 1_800_000, 30_000
CITIES = ("ahmedabad", "bengaluru", "chennai", "kolkata", "mumbai")
WAVES = {5: 2, 125: 8, 245: 20, 365: 30, 485: 25, 605: 15}
"""Seconds after the edge is back → how many phones of a hundred flush then."""
WAVE_SECONDS = 50
FILES = 5

PIPELINE = """\
name: bookmyshow
store: ./store
source:
  files: {path: arrivals, format: json, order_by: arrival_time, max_files_per_batch: 1}
event: {time: event_time, id: view_id}
watermark: {strategy: bounded, delay: 10s, max_future: 5m}
ledger: [seats]
outputs:
  ticket_views:
    window: {tumbling: 1m}
    by: [city]
    aggregates: {views: count(*), seats: sum(seats)}
    allowed_lateness: 60s
    late: update             # up to a minute late, the number is put right at once
    too_late: side_output    # what is later is set aside, for a correction or a rebuild
    sinks: [{sqlite: dashboard.db}]
schedule:
  ticket_views: {cron: "30 2 * * *", last: 24h}
"""

Place = tuple[datetime, str]
"""A minute and a city."""


@dataclass(frozen=True)
class Scenario:
    """What was written, and what the phones saw, which is the truth."""

    file: Path
    rows: int
    buffered: int
    next_morning: int
    seen: Mapping[Place, int]

    def let_morning_come(self) -> None:
        """Move what was flushed the next morning to where the pipeline finds it."""
        (part,) = (self.file.parent / "next_morning").iterdir()
        part.rename(self.file.parent / "arrivals" / part.name)


def outage() -> list[datetime]:
    """The minutes in which the edge was down."""
    return [START + timedelta(minutes=minute) for minute in range(DOWN_FROM, DOWN_UNTIL)]


def write_scenario(folder: Path, scale: int = 100, files: int = FILES) -> Scenario:
    """Write the pipeline file and the arrivals, those of the next morning in a folder of their own."""
    arrivals, next_morning = folder / "arrivals", folder / "next_morning"
    for each in (arrivals, next_morning):
        each.mkdir(parents=True)
    file = folder / "bookmyshow.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    views = _Views(random.Random(2024), scale)  # noqa: S311 - a scenario, not a secret
    evening = sorted(views.evening())
    size = -(-len(evening) // files)
    for number in range(files):
        part = evening[number * size : (number + 1) * size]
        write_part(arrivals, number, (line for *_, line in part), START)
    morning = sorted(views.morning())
    write_part(next_morning, files, (line for *_, line in morning), START)
    return Scenario(file, len(evening) + len(morning), views.buffered, views.next_morning, views.seen)


Row = tuple[float, int, str]
"""Arrival second, number and JSON line."""


class _Views:
    def __init__(self, rng: random.Random, scale: int) -> None:
        self.rng = rng
        self.buffered, self.next_morning = BUFFERED // scale, NEXT_MORNING // scale
        self.a_minute, self.a_morning_minute = A_MINUTE // scale, max(A_MORNING_MINUTE // scale, 1)
        self.seen: Counter[Place] = Counter()
        self.number = 0
        self.overnight: list[float] = []
        """The seconds of the views that arrive the next morning."""

    def evening(self) -> Iterator[Row]:
        minutes = DOWN_UNTIL - DOWN_FROM
        overnight = set(self.rng.sample(range(self.buffered), self.next_morning))
        nth = 0
        for minute in range(LAST):
            prompt = self.a_minute
            if DOWN_FROM <= minute < DOWN_UNTIL:
                many, more = divmod(self.buffered, minutes)
                many += minute - DOWN_FROM < more
                share = self.rng.uniform(0.305, 0.395)
                prompt = round(many * (1 - share) / share)
                for _ in range(many):
                    happened = self._within(minute)
                    if nth in overnight:
                        self.overnight.append(happened)
                    else:
                        yield self._view(happened, self._flushed())
                    nth += 1
            yield from self._prompt(minute, prompt)

    def morning(self) -> Iterator[Row]:
        """The rest of the evening, among the views of people who look for other tickets."""
        first, last = (60 * minute for minute in MORNING)
        for happened in self.overnight:
            yield self._view(happened, self.rng.uniform(first, last))
        for minute in range(*MORNING):
            yield from self._prompt(minute, self.a_morning_minute)

    def _prompt(self, minute: int, count: int) -> Iterator[Row]:
        """Views that come at once; a few of them are sent twice."""
        for _ in range(count):
            happened = self._within(minute)
            arrived = happened + min(self.rng.expovariate(1 / 1.5), 8)
            row = self._view(happened, arrived)
            yield row
            if self.rng.random() < 0.0005:
                again = arrived + 1
                yield again, row[1], row[2].replace(_iso(arrived), _iso(again))

    def _within(self, minute: int) -> float:
        return 60 * minute + 60 * self.rng.random()

    def _flushed(self) -> float:
        (wave,) = self.rng.choices([*WAVES], [*WAVES.values()])
        return 60 * DOWN_UNTIL + wave + WAVE_SECONDS * self.rng.random()

    def _view(self, happened: float, arrived: float) -> Row:
        self.number += 1
        city, seats = self.rng.choice(CITIES), self.rng.randrange(1, 7)
        self.seen[START + timedelta(minutes=happened // 60), city] += 1
        line = (
            f'{{"view_id": "v{self.number:08d}", "city": "{city}", "seats": {seats}, '
            f'"event_time": "{_iso(happened)}", "arrival_time": "{_iso(arrived)}"}}'
        )
        return arrived, self.number, line


def _iso(second: float) -> str:
    moment = START + timedelta(milliseconds=int(second * 1000))
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
