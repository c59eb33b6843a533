"""The engine driven batch by batch on real Spark, and held against the oracle.

Arrivals become JSON lines, a file a batch; the engine reads them as it reads any file. Then everything
it stored is compared with what the interpreter says: verdict by verdict, pane by pane, entry by entry.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from pyspark.sql import SparkSession

from latecomer.after.explain.explain import explain
from latecomer.after.explain.places import as_text
from latecomer.after.reading.reader import Reader
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.engine.pipeline import Engine
from latecomer.engine.running import run
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import drain_input, heartbeat
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.durations import to_micros
from latecomer.model.ledger import Entry
from latecomer.model.oracle.arrivals import Arrival, Heartbeat
from latecomer.model.oracle.interpreter import Interpretation, interpret
from latecomer.model.panes import Op, Pane, Timing
from latecomer.model.strategies import Strategy
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session
from latecomer.source.decode.base import SourceFile
from latecomer.source.found_files import FileSlice
from latecomer.spark.base import InProcess
from latecomer.spark.session import own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.standing import publication_order
from latecomer.store.store import Store, open_store
from latecomer.testing.checking import in_turn
from latecomer.windowing.fate_counts import FATES
from latecomer.windowing.firing.output import FiringBatch as EngineBatch
from latecomer.windowing.firing.session_output import SessionLogic
from latecomer.windowing.judge import judged
from latecomer.windowing.visible_events import event_tables, stored_columns
from spread_kit import Spread, spread_out
from window_kit import WHENS

COLUMNS = {"at": "bigint", "seen": "bigint", "part": "string", "id": "string"}
PAYLOAD = {"key": "string", "paise": "bigint", "ok": "boolean"}
Predicate = Callable[[Mapping[str, Any]], bool | None]
Batch = Sequence[Arrival] | Heartbeat
Place = tuple[int, int, int | None]

on_spark = settings(
    deadline=None,
    max_examples=8,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
    # An example takes seconds: what fails is told as it was found, and can be repeated by its blob.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    print_blob=True,
)
many_on_spark = settings(on_spark, max_examples=60, derandomize=False)


def quick_start() -> dict[str, str]:
    """The environment of a process that starts a small Spark of its own and soon ends: nothing is compiled
    that will run only once. (A folder of settings would stand before Spark's jars, and the archive of their classes
    is of the jars alone.)"""
    interpreted = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    return {
        "PYSPARK_SUBMIT_ARGS": " ".join(
            [*(f"--conf {name}={value}" for name, value in interpreted.items()), "pyspark-shell"]
        ),
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
        "LATECOMER_MASTER": "local[1]",
        "LATECOMER_MEMORY": "1g",
    }


def filtered(output: Output) -> Output:
    """The same output, for the events that are ok."""
    return output.model_copy(update={"where": "ok"})


def pipeline_over(
    folder: Path,
    strategy: Strategy,
    outputs: Mapping[str, Output],
    payload: Mapping[str, str],
    measures: Sequence[str] = ("paise",),
    ids: bool = True,
) -> Pipeline:
    """The pipeline over arrivals that were written as files into a folder."""
    return Pipeline(
        name="bench",
        store=str(folder / "store"),
        source=Source(files=Files(path=str(folder / "in"), order_by="seen"), columns={**COLUMNS, **payload}),
        event=Event(time="at", id="id" if ids else None, partition="part", unit="us"),
        watermark=strategy,
        outputs=dict(outputs),
        ledger=tuple(measures),
    )


@dataclass
class Bench:
    """A pipeline over arrivals written as files, one folder a test."""

    spark: SparkSession
    folder: Path
    strategy: Strategy
    outputs: Mapping[str, Output]
    payload: Mapping[str, str]
    measures: Sequence[str] = ("paise",)
    ids: bool = True
    spread: bool = False
    """Whether events and keys are shared out to several tasks."""

    @property
    def session(self) -> SparkSession:
        return own_session(self.spark)

    @property
    def runner(self) -> InProcess:
        return (Spread if self.spread else InProcess)(when_needed(lambda: self.session))

    @property
    def pipeline(self) -> Pipeline:
        return pipeline_over(self.folder, self.strategy, self.outputs, self.payload, self.measures, self.ids)

    def write(self, number: int, batch: Sequence[Arrival]) -> FileSlice:
        """A batch's arrivals as one file of JSON lines; a dead one has no event time."""
        (self.folder / "in").mkdir(parents=True, exist_ok=True)
        file = self.folder / "in" / f"{number:04d}.json"
        with open(file, "w", encoding="utf-8") as lines:
            for arrival in batch:
                row = {
                    "at": None if arrival.dead else arrival.event_time,
                    "seen": arrival.arrival_time,
                    "part": arrival.partition,
                    "id": None if arrival.event_id is None else str(arrival.event_id),
                    **{
                        name: _written(value)
                        for name, value in arrival.payload.items()
                        if name in self.payload
                    },
                }
                lines.write(json.dumps(row) + "\n")
        return FileSlice.of([SourceFile(file.as_uri(), number, file.stat().st_size)])

    def engine(self) -> Engine:
        engine = Engine(self.runner, Store(self.pipeline, self.pipeline.source.columns or {}))
        if self.spread:
            spread_out(engine)
        start_engine(engine)
        return engine

    def run(self, batches: Sequence[Batch], drain: bool = False, restart: bool = False) -> Store:
        """Run every batch; with `restart`, through an engine of its own, as after a restart."""
        engine = self.engine()
        read = 0
        for batch in batches:
            if isinstance(batch, Heartbeat):
                heartbeat(engine, batch.at)
            else:
                engine.data(read, self.write(read, batch))
                read += 1
            if restart:
                engine.finish()
                engine.sinks.close()
                engine = self.engine()
        if drain:
            drain_input(engine)
        engine.finish()
        engine.sinks.close()
        return open_store(self.pipeline)

    def oracle(
        self,
        batches: Sequence[Batch],
        drain: bool = False,
        marks: Predicate | None = None,
        **where: Predicate,
    ) -> Interpretation:
        reach = max(output.allowed_lateness + output.window.reach for output in self.outputs.values())
        return interpret(
            batches,
            self.strategy,
            self.outputs,
            where=where,
            measures=self.measures,
            drain=drain,
            reach=reach if self.ids else None,
            marks=marks,
            when=WHENS,
        )

    def judgements(
        self, store: Store, output: str, engine: Engine | None = None
    ) -> dict[Place, tuple[Fate, int]]:
        """Batch, position and window end → fate and watermark at arrival, as the engine judges them."""
        engine = engine or Engine(self.runner, store)
        keeper = TimelineKeeper(store.watermarks, self.strategy)
        section = keeper.section(0, engine.last)
        logged = engine.log.everything()
        (logic,) = [each for each in engine.outputs if each.name == output]
        if isinstance(logic, SessionLogic):
            log = EngineBatch(engine.last, section, logged, history=True)
            return {
                self.judged_place(output, batch, nth, end, FATES[fate]): (FATES[fate], watermark)
                for part, found in logic.judged(log)
                for batch, nth, end, fate, watermark in zip(
                    part.rows().column("batch").to_pylist(),
                    part.rows().column("position").to_pylist(),
                    found.end.tolist(),
                    found.fate.tolist(),
                    found.watermark.tolist(),
                    strict=True,
                )
            }
        rules = self.outputs[output]
        wanted = [*stored_columns(store.layout, [rules], ()), "position"]
        outcome: dict[Place, tuple[Fate, int]] = {}
        for events in event_tables(logged, wanted, [rules], store.layout):
            found = judged(events, store.layout, rules, section.watermarks, [])
            batch, nth = (events.column(name).take(found.nth).to_pylist() for name in ("batch", "position"))
            verdicts = zip(
                batch, nth, found.end.tolist(), found.fate.tolist(), found.watermark.tolist(), strict=True
            )
            for number, position, end, code, watermark in verdicts:
                place = self.judged_place(output, number, position, end, FATES[code])
                outcome[place] = FATES[code], watermark
        return outcome

    def judged_place(self, output: str, batch: int, nth: int, end: int | None, fate: Fate) -> Place:
        """An event that was filtered belongs to no window; what one adds to a session may grow later."""
        session = isinstance(self.outputs[output].window, Session)
        grows = session and fate in (Fate.ON_TIME, Fate.LATE_ACCEPTED)
        return batch, nth, None if fate is Fate.FILTERED or grows else end


def _written(value: Any) -> Any:
    return str(value) if isinstance(value, Decimal) else value


def stored_panes(store: Store, output: str) -> list[tuple[int, Pane]]:
    """Everything published, with its batch, in the order in which a sink is handed it."""
    rules = store.pipeline.outputs[output]
    table = store.output_tables(output, None).panes
    if not table.exists:
        return []
    rows = table.query(f"select * from t order by {publication_order(rules)}")
    return [
        (
            row["batch"],
            Pane(
                to_micros(row["window_start"]),
                to_micros(row["window_end"]),
                tuple(row[name] for name in rules.by),
                {name: row[name] for name in rules.aggregates},
                row["sequence"],
                Timing(row["timing"]),
                Op(row["op"]),
                row["is_last"],
            ),
        )
        for row in rows.to_pylist()
    ]


def require_explained(pipeline: Pipeline, output: str) -> None:
    """The log gives what each pane says, of every number that was ever published."""
    reader, by = Reader(pipeline), pipeline.outputs[output].by
    rows = reader.panes(output).to_pylist()
    for start, *key in {(row["window_start"], *(row[name] for name in by)) for row in rows}:
        named = {name: as_text(value) for name, value in zip(by, key, strict=True)}
        found = explain(reader, output, start, named)
        assert (found.reconciled, found.notes) == (True, []), (start, named)


def stored_entries(store: Store) -> list[Entry]:
    return [
        Entry(
            row["batch"],
            row["output"],
            row["unit"],
            row["received"],
            {fate: row[fate.value] for fate in Fate},
            row["partly_late"],
            row["late_at_source"],
        )
        for row in store.ledger.query("select * from t").to_pylist()
    ]


def comparable(panes: Sequence[tuple[int, Pane]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Panes by identity: what is published, when, in which role → its values."""
    found = {identity(batch, pane): {**pane.values, "is_last": pane.is_last} for batch, pane in panes}
    assert len(found) == len(panes), "a pane was published twice"
    return found


def identity(batch: int, pane: Pane) -> tuple[Any, ...]:
    return (batch, *pane.place, pane.sequence, pane.timing, pane.op)


def assert_in_turn(
    found: Sequence[tuple[int, Pane]], expected: Sequence[tuple[int, Pane]], rules: Output
) -> None:
    """Panes whose order matters follow one another as the oracle tells them."""
    turn = {identity(*each): place for place, each in enumerate(expected)}
    matters = in_turn(rules)
    together: dict[tuple[Any, ...], list[tuple[int, Pane]]] = {}
    for batch, pane in found:
        together.setdefault((batch, pane.key), []).append((batch, pane))
    for panes in together.values():
        for one, other in combinations(panes, 2):
            if matters(one[1], other[1]):
                assert turn[identity(*one)] < turn[identity(*other)], f"{one} was told before {other}"


def as_lines(entries: Sequence[Entry]) -> dict[tuple[Any, ...], tuple[Decimal, ...]]:
    """Ledger entries by identity; batches that received nothing have none."""
    return {
        (entry.batch, entry.output, entry.unit): (
            entry.received,
            *(entry.fates.get(fate, Decimal(0)) for fate in Fate),
            Decimal(entry.partly_late),
            Decimal(entry.late_at_source),
        )
        for entry in entries
        if any(each.received for each in entries if each.batch == entry.batch)
    }


def assert_same(bench: Bench, store: Store, outcome: Interpretation, reading: Sequence[Batch]) -> None:
    """The store says what the oracle says."""
    assert_judged(bench, store, outcome, reading)
    for output in bench.outputs:
        published = [(each.batch, each.pane) for each in outcome.published[output]]
        stored = stored_panes(store, output)
        require_equal(comparable(stored), comparable(published))
        assert_in_turn(stored, published, bench.outputs[output])
    require_equal(as_lines(stored_entries(store)), as_lines(outcome.ledger))


def assert_judged(bench: Bench, store: Store, outcome: Interpretation, reading: Sequence[Batch]) -> None:
    """Every event has the fate, and met the watermark, that the oracle says."""
    nths = [nth for batch in reading if not isinstance(batch, Heartbeat) for nth in range(len(batch))]
    engine = Engine(bench.runner, store)
    for output in bench.outputs:
        expected = {
            bench.judged_place(
                output,
                each.batch,
                nths[each.position],
                each.window.end if each.window else None,
                each.fate,
            ): (each.fate, each.watermark)
            for each in outcome.judged[output]
            if each.fate not in (Fate.DUPLICATE, Fate.DEAD_LETTER)
        }
        require_equal(bench.judgements(store, output, engine), expected)


def require_equal(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    """Fail with what differs, and how: in a sentence each."""
    places = [*expected, *(place for place in found if place not in expected)]
    wrong = [
        f"{place}: Spark has {found.get(place)}, the oracle {expected.get(place)}"
        for place in places
        if found.get(place) != expected.get(place)
    ]
    assert not wrong, "\n".join(wrong)


@contextmanager
def event_log(spark: SparkSession, folder: Path) -> Iterator[Path]:
    """What Spark's event log (`spark.eventLog.enabled`) says of the block; it is whole behind it."""
    jvm, context = spark._jvm, spark.sparkContext._jsc.sc()
    assert jvm is not None
    conf = context.conf().clone().set("spark.eventLog.compress", "false")
    conf.set("spark.eventLog.rolling.enabled", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "watched", jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri()), conf
    )
    listener.start()
    context.addSparkListener(listener)
    try:
        yield folder / "watched"
    finally:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(listener)
        listener.stop()


@contextmanager
def running_beside(pipeline: Pipeline, spark: SparkSession, patience: float = 120.0) -> Iterator[None]:
    """A continuous run beside the block."""
    stop, failed = threading.Event(), list[BaseException]()

    def follow() -> None:
        try:
            run(pipeline, spark=spark, stop=stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(patience)
    assert failed == []
