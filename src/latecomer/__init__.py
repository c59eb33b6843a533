"""The late-data layer for Apache Spark: every late event has a named fate, every number its history.

from latecomer import load_pipeline, run, Reader

pipeline = load_pipeline("pipeline.yaml")
run(pipeline, once=True)
Reader(pipeline).results("minute_totals")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from latecomer.config.answering import answered_by

if TYPE_CHECKING:
    from latecomer.after.certify.certificate import Certificate, Checked
    from latecomer.after.dataframes.frames import changes, register, results
    from latecomer.after.explain.explanation import Explanation
    from latecomer.after.letters.replaying import ReplayedLetters
    from latecomer.after.reading.reader import Reader
    from latecomer.after.reading.rows import Rows
    from latecomer.after.rebuild.rebuilding import Applied
    from latecomer.after.reconcile.gaps import Reconciliation
    from latecomer.after.replay.replaying import Replay, replay
    from latecomer.api import (
        advise,
        apply_rebuild,
        certify,
        check_alerts,
        check_certificate,
        correct,
        explain,
        gaps,
        nowcast,
        plan_rebuild,
        reconcile,
        replay_dead_letters,
        run,
        serve,
        sink_status,
    )
    from latecomer.config.contract import PaneShape, RowShape, SinkLogic
    from latecomer.config.load import load_pipeline
    from latecomer.config.models import Event, Pipeline
    from latecomer.config.operation import Alerts, Lease, Retention
    from latecomer.config.outputs import Output
    from latecomer.config.own import Decoder, PolledSource
    from latecomer.config.sinks import (
        DeltaSink,
        DuckdbSink,
        IcebergSink,
        JsonlSink,
        KafkaSink,
        ParquetSink,
        PostgresSink,
        Sink,
        SqliteSink,
    )
    from latecomer.config.sources import Files, Frames, NamedSource, Source
    from latecomer.engine.ledger.report import BatchReport
    from latecomer.engine.running import RunReport
    from latecomer.engine.upkeep.compacting import compact
    from latecomer.errors import (
        LatecomerError,
        PipelineError,
        SinkError,
        SinkOutage,
        SourceError,
        SourceOutage,
        StoreInUse,
    )
    from latecomer.frames import Into, append, into
    from latecomer.model.durations import Duration
    from latecomer.model.strategies import (
        Adaptive,
        Ascending,
        Bounded,
        Needs,
        Percentile,
        Punctuated,
        Strategy,
        TickSummary,
    )
    from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Trigger, Until, When
    from latecomer.model.windows import Calendar, Global, Session, Sliding, Tumbling
    from latecomer.model.written_numbers import Numbers, Signs
    from latecomer.observe.advise.page import Advice
    from latecomer.observe.nowcast.report import Nowcast
    from latecomer.store.rebuilds import Rebuild

__all__ = [
    "Adaptive",
    "Advice",
    "AfterFirst",
    "Alerts",
    "AllOf",
    "AnyOf",
    "Applied",
    "Ascending",
    "BatchReport",
    "Bounded",
    "Calendar",
    "Certificate",
    "Checked",
    "Count",
    "Decoder",
    "DeltaSink",
    "DuckdbSink",
    "Duration",
    "Event",
    "Every",
    "Explanation",
    "Files",
    "Frames",
    "Global",
    "IcebergSink",
    "Into",
    "JsonlSink",
    "KafkaSink",
    "LatecomerError",
    "Lease",
    "NamedSource",
    "Needs",
    "Nowcast",
    "Numbers",
    "Output",
    "PaneShape",
    "ParquetSink",
    "Percentile",
    "Pipeline",
    "PipelineError",
    "PolledSource",
    "PostgresSink",
    "Punctuated",
    "Reader",
    "Rebuild",
    "Reconciliation",
    "Replay",
    "ReplayedLetters",
    "Retention",
    "RowShape",
    "Rows",
    "RunReport",
    "Session",
    "Signs",
    "Sink",
    "SinkError",
    "SinkLogic",
    "SinkOutage",
    "Sliding",
    "Source",
    "SourceError",
    "SourceOutage",
    "SqliteSink",
    "StoreInUse",
    "Strategy",
    "TickSummary",
    "Trigger",
    "Tumbling",
    "Until",
    "When",
    "advise",
    "append",
    "apply_rebuild",
    "certify",
    "changes",
    "check_alerts",
    "check_certificate",
    "compact",
    "correct",
    "explain",
    "gaps",
    "into",
    "load_pipeline",
    "nowcast",
    "plan_rebuild",
    "reconcile",
    "register",
    "replay",
    "replay_dead_letters",
    "results",
    "run",
    "serve",
    "sink_status",
]

_NAMES = {
    "after.certify.certificate": "Certificate Checked",
    "after.dataframes.frames": "changes register results",
    "after.explain.explanation": "Explanation",
    "after.letters.replaying": "ReplayedLetters",
    "after.reading.reader": "Reader",
    "after.reading.rows": "Rows",
    "after.rebuild.rebuilding": "Applied",
    "after.reconcile.gaps": "Reconciliation",
    "after.replay.replaying": "Replay replay",
    "api": "advise apply_rebuild certify check_alerts check_certificate correct explain gaps nowcast "
    "plan_rebuild reconcile replay_dead_letters run serve sink_status",
    "config.contract": "PaneShape RowShape SinkLogic",
    "config.load": "load_pipeline",
    "config.models": "Event Pipeline",
    "config.operation": "Alerts Lease Retention",
    "config.outputs": "Output",
    "config.own": "Decoder PolledSource",
    "config.sinks": "DeltaSink DuckdbSink IcebergSink JsonlSink KafkaSink ParquetSink PostgresSink Sink "
    "SqliteSink",
    "config.sources": "Files Frames NamedSource Source",
    "engine.ledger.report": "BatchReport",
    "engine.running": "RunReport",
    "engine.upkeep.compacting": "compact",
    "errors": "LatecomerError PipelineError SinkError SinkOutage SourceError SourceOutage StoreInUse",
    "frames": "Into append into",
    "model.durations": "Duration",
    "model.strategies": "Adaptive Ascending Bounded Needs Percentile Punctuated Strategy TickSummary",
    "model.triggers": "AfterFirst AllOf AnyOf Count Every Trigger Until When",
    "model.windows": "Calendar Global Session Sliding Tumbling",
    "model.written_numbers": "Numbers Signs",
    "observe.advise.page": "Advice",
    "observe.nowcast.report": "Nowcast",
    "store.rebuilds": "Rebuild",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each name. It is imported on first use: `latecomer --help` needs none, and reading no Spark."""


answered_by(lambda: import_module("latecomer.notebook"))


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        public = globals()[name] = getattr(import_module(f"latecomer.{_PLACES[name]}"), name)
        return public
    raise AttributeError(f"module 'latecomer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
