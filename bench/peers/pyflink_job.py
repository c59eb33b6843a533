"""The job in PyFlink's DataStream API: every event goes through Python, and late ones fire their window again."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyflink.common import Configuration, Duration, Encoder, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from pyflink.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from pyflink.datastream.functions import AggregateFunction, ProcessWindowFunction
from pyflink.datastream.window import TumblingEventTimeWindows

from bench.peers.feed import CORES, DELAY, LATENESS, WINDOW, lanes, parsed, run_job, total


def event_type() -> Any:
    """A new one for each use: once it has been used, it cannot be pickled, as that of the side output is."""
    return Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


SETTINGS = {
    "execution.checkpointing.interval": "10s",
    "python.executable": sys.executable,
    # As much of the state as there are keys stays in Python; otherwise each event fetches its own.
    "python.state.cache-size": "100000",
    "python.map-state.read-cache-size": "100000",
    "python.map-state.write-cache-size": "100000",
    "python.fn-execution.bundle.size": "100000",
}


class EventTime(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return value[1]


class Sums(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value[2]

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator

    def merge(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]


class AsLine(ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Iterable[tuple[int, int]]) -> Iterable[str]:
        for payments, paise in elements:
            yield total(context.window().start * 1000, key, payments, paise)


def event(line: str) -> tuple[str, int, int]:
    merchant, at, paise = parsed(line)
    return merchant, int(at.timestamp() * 1000), paise


def job(source: Path, work: Path) -> None:
    settings = Configuration()
    for name, value in SETTINGS.items():
        settings.set_string(name, value)
    env = StreamExecutionEnvironment.get_execution_environment(settings)
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    env.set_parallelism(CORES)
    folder = str(lanes(source, work / "lanes"))
    reading = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder).build()
    bounded = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(int(DELAY.total_seconds())))
    late = OutputTag("late", event_type())
    numbers = (
        env.from_source(reading, WatermarkStrategy.no_watermarks(), "lines")
        .map(event, event_type())
        .assign_timestamps_and_watermarks(bounded.with_timestamp_assigner(EventTime()))
        .key_by(lambda each: each[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.milliseconds(int(WINDOW.total_seconds() * 1000))))
        .allowed_lateness(int(LATENESS.total_seconds() * 1000))
        .side_output_late_data(late)
        .aggregate(
            Sums(),
            AsLine(),
            Types.TUPLE([Types.LONG(), Types.LONG()]),
            Types.STRING(),
        )
    )
    numbers.sink_to(sink(work / "totals"))
    numbers.get_side_output(late).map(str, Types.STRING()).sink_to(sink(work / "late"))
    env.execute("totals")


def sink(folder: Path) -> FileSink:
    return FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build()


if __name__ == "__main__":
    run_job(job)
