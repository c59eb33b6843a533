"""Answers to the page's requests, kept for as long as the store's tables have not changed.

Changes are seen by the versions of the tables, for which only a few folders are listed. An unchanged store is not read
again, however often the page asks.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.errors import NoStore
from latecomer.model.windows import zone_of
from latecomer.model.zoned import in_zone
from latecomer.observe.dashboard.ledger import ledger, of_fate
from latecomer.observe.dashboard.now import now, sinks
from latecomer.observe.dashboard.parameters import Query
from latecomer.observe.dashboard.views import arrivals, estimates, explained, lateness, windows
from latecomer.store.cached_store import Shelf
from latecomer.store.delta.commits import last_version
from latecomer.store.files import Location, read_text
from latecomer.store.holding.lock import running_on
from latecomer.store.pins import PINS
from latecomer.store.publications import wall_clock
from latecomer.store.store import Store, open_store

KEPT = 64
"""So many answers are kept."""
SAFE = 2**53
"""Whole numbers beyond this are sent as text, because a browser would round them."""
_TABLES = (
    "events",
    "duplicates",
    "dead_letters",
    "watermarks",
    "ledger",
    "publications",
    "removals",
    "repairs",
)
_OF_OUTPUTS = ("panes", "partials", "late", "dead_letters", "corrections")

Make = Callable[[Reader, Query], Any]


class KeptReader(Reader):
    """Reads a store that stays open: one answer is read from one state of the store."""

    def __init__(self, pipeline: Pipeline, shelf: Shelf) -> None:
        super().__init__(pipeline)
        self._shelf = shelf

    @cached_property
    def _kept_store(self) -> Store:
        return self._shelf.store(self.pipeline)

    def _opened(self) -> Store:
        return self._kept_store


@dataclass(frozen=True)
class Route:
    """A kind of request about a pipeline."""

    make: Make
    parameters: frozenset[str] = frozenset()
    every: float = 0.0
    """It is made again no sooner than so many seconds after the last time, even if tables have changed."""
    ages: float | None = None
    """After so many seconds it is made again even if no table has changed, because it depends on the clock."""
    kept: bool = False
    """Whether it reads the store that stays open. Only one answer at a time may read it, so it has to be quick."""


ROUTES: Mapping[str, Route] = {
    "now": Route(lambda reader, _: now(reader, wall_clock()), ages=60, kept=True),
    "sinks": Route(lambda reader, _: {"sinks": sinks(open_store(reader.pipeline))}, every=2, ages=15),
    "windows": Route(windows, frozenset({"output", "window", "key", "most", "skip"}), kept=True),
    "nowcast": Route(estimates, frozenset({"output", "window", "key"}), every=10),
    "ledger": Route(ledger, frozenset({"output", "skip"}), kept=True),
    "fate": Route(of_fate, frozenset({"output", "fate", "batch", "day", "most"})),
    "explain": Route(explained, frozenset({"output", "window", "key"})),
    "arrivals": Route(arrivals, frozenset({"output", "until"}), every=2),
    "lateness": Route(lambda reader, _: lateness(reader.pipeline, open_store(reader.pipeline)), every=30),
}


@dataclass(frozen=True)
class Answer:
    """A body and its tag."""

    tag: str
    body: bytes


@dataclass
class _Kept:
    answer: Answer
    seen: str
    """The versions of the tables that it was made from."""
    made_at: float
    took: float


@dataclass
class Answers:
    """The answers of some pipelines."""

    pipelines: Sequence[Pipeline]
    clock: Callable[[], float] = time.monotonic
    zone: str | None = None
    """The zone of all moments; None: the moments of an output are in the zone of its windows."""
    _kept: OrderedDict[tuple[int, str, str], _Kept] = field(default_factory=OrderedDict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _making: dict[str, threading.Lock] = field(
        default_factory=lambda: {name: threading.Lock() for name in ROUTES}
    )
    _shelf: Shelf = field(default_factory=Shelf)
    _reading: threading.Lock = field(default_factory=threading.Lock)
    made: int = 0
    """How many answers were made, without those that were kept."""

    def listing(self) -> Answer:
        """The pipelines, and their outputs."""
        return _answer(
            [
                {
                    "name": pipeline.name,
                    "outputs": {
                        name: {
                            "window": str(output.window),
                            "zone": self.zone or zone_of(output.window),
                            "by": list(output.by),
                            "aggregates": {each: str(value) for each, value in output.aggregates.items()},
                        }
                        for name, output in pipeline.outputs.items()
                    },
                }
                for pipeline in self.pipelines
            ]
        )

    def answer(self, number: int, route: str, text: str) -> Answer:
        """The answer of a pipeline to a request: the kept one, if nothing has changed."""
        wanted, query = ROUTES[route], Query.of(text, ROUTES[route].parameters)
        place = number, route, json.dumps(query.given, sort_keys=True)
        if (kept := self._fresh(place, wanted, number)) is not None:
            return kept
        with self._making[route]:  # a second request for the same waits, and gets the kept answer
            if (kept := self._fresh(place, wanted, number)) is not None:
                return kept
            pipeline = self.pipelines[number]
            seen, began = fingerprint(pipeline), self.clock()
            try:
                answer = _answer(self._make(number, route, query))
            except NoStore as error:
                answer = _answer({"empty": str(error)})
            self._keep(place, _Kept(answer, seen, self.clock(), self.clock() - began))
            return answer

    def _make(self, number: int, name: str, query: Query) -> Any:
        route, pipeline = ROUTES[name], self.pipelines[number]
        with in_zone(self.zone or _zone(pipeline, route, query)):
            if not route.kept:
                return route.make(Reader(pipeline), query)
            with self._reading:
                return route.make(KeptReader(pipeline, self._shelf), query)

    def _fresh(self, place: tuple[int, str, str], route: Route, number: int) -> Answer | None:
        with self._guard:
            kept = self._kept.get(place)
        if kept is None:
            return None
        age = self.clock() - kept.made_at
        if route.every and age < max(route.every, 20 * kept.took):  # a slow answer is made less often
            return kept.answer
        old = route.ages is not None and age >= route.ages
        return None if old or kept.seen != fingerprint(self.pipelines[number]) else kept.answer

    def _keep(self, place: tuple[int, str, str], made: _Kept) -> None:
        with self._guard:
            self.made += 1
            self._kept[place] = made
            self._kept.move_to_end(place)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)


def _zone(pipeline: Pipeline, route: Route, query: Query) -> str:
    """The zone of the request's output; where a route has no output, the one zone of all outputs, or UTC."""
    outputs = list(pipeline.outputs.values())
    if "output" in route.parameters:
        outputs = [pipeline.outputs[query.output(pipeline.outputs)]]
    zones = {zone_of(output.window) for output in outputs}
    return zones.pop() if len(zones) == 1 else "UTC"


def fingerprint(pipeline: Pipeline) -> str:
    """Changes whenever a store does: made from the versions of its tables, its pins, and the run that holds it."""
    root = pipeline.store_path
    tables = [root / name for name in _TABLES]
    tables += [root / "outputs" / output / name for output in pipeline.outputs for name in _OF_OUTPUTS]
    # The last name in the folder would not do: it is `_last_checkpoint`, once a table has one.
    seen: list[object] = [last_version(table) for table in tables]
    seen += [_text(root / name) for name in (PINS, "sinks.json")]
    running = running_on(root)
    return hashlib.sha256(repr((seen, running)).encode("utf-8", "backslashreplace")).hexdigest()


def _text(file: Location) -> str:
    try:
        return read_text(file)
    except (OSError, ValueError):
        return ""


def _answer(made: Any) -> Answer:
    body = json.dumps(_sendable(made), ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()
    return Answer(f'"{hashlib.sha256(body).hexdigest()[:32]}"', body)


def _sendable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _sendable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_sendable(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > SAFE:
        return str(value)
    return value
