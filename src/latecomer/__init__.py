"""The late-data layer for Apache Spark: it records what happened to every late event, and why every number changed.

from latecomer import load_pipeline, run, Reader

pipeline = load_pipeline("pipeline.yaml")
run(pipeline, once=True)
Reader(pipeline).results("minute_totals")
"""

from __future__ import annotations

TYPE_CHECKING = False
"""Type checkers take it as true. It is not imported from `typing`: that takes time, in which Ctrl-C would end the
command `latecomer` with a stack trace."""

if TYPE_CHECKING:
    from latecomer.after.certify.certificate import Certificate as Certificate
    from latecomer.after.certify.certificate import Checked as Checked
    from latecomer.after.dataframes.frames import changes as changes
    from latecomer.after.dataframes.frames import register as register
    from latecomer.after.dataframes.frames import results as results
    from latecomer.after.explain.explanation import Explanation as Explanation
    from latecomer.after.letters.replaying import ReplayedLetters as ReplayedLetters
    from latecomer.after.reading.reader import Reader as Reader
    from latecomer.after.reading.rows import Rows as Rows
    from latecomer.after.rebuild.rebuilding import Applied as Applied
    from latecomer.after.reconcile.gaps import Reconciliation as Reconciliation
    from latecomer.after.replay.replaying import Replay as Replay
    from latecomer.after.replay.replaying import replay as replay
    from latecomer.api import advise as advise
    from latecomer.api import apply_rebuild as apply_rebuild
    from latecomer.api import certify as certify
    from latecomer.api import check_alerts as check_alerts
    from latecomer.api import check_certificate as check_certificate
    from latecomer.api import correct as correct
    from latecomer.api import explain as explain
    from latecomer.api import gaps as gaps
    from latecomer.api import nowcast as nowcast
    from latecomer.api import plan_rebuild as plan_rebuild
    from latecomer.api import reconcile as reconcile
    from latecomer.api import replay_dead_letters as replay_dead_letters
    from latecomer.api import run as run
    from latecomer.api import serve as serve
    from latecomer.api import sink_status as sink_status
    from latecomer.config.contract import PaneShape as PaneShape
    from latecomer.config.contract import RowShape as RowShape
    from latecomer.config.contract import SinkLogic as SinkLogic
    from latecomer.config.models import Event as Event
    from latecomer.config.operation import Alerts as Alerts
    from latecomer.config.operation import Lease as Lease
    from latecomer.config.operation import Retention as Retention
    from latecomer.config.outputs import Output as Output
    from latecomer.config.sinks import DeltaSink as DeltaSink
    from latecomer.config.sinks import DuckdbSink as DuckdbSink
    from latecomer.config.sinks import IcebergSink as IcebergSink
    from latecomer.config.sinks import JsonlSink as JsonlSink
    from latecomer.config.sinks import KafkaSink as KafkaSink
    from latecomer.config.sinks import ParquetSink as ParquetSink
    from latecomer.config.sinks import PostgresSink as PostgresSink
    from latecomer.config.sinks import Sink as Sink
    from latecomer.config.sinks import SqliteSink as SqliteSink
    from latecomer.config.sources import Files as Files
    from latecomer.config.sources import Frames as Frames
    from latecomer.config.sources import NamedSource as NamedSource
    from latecomer.config.sources import Source as Source
    from latecomer.config.user_classes import Decoder as Decoder
    from latecomer.config.user_classes import PolledSource as PolledSource
    from latecomer.engine.ledger.report import BatchReport as BatchReport
    from latecomer.engine.running import RunReport as RunReport
    from latecomer.engine.upkeep.compacting import compact as compact
    from latecomer.errors import LatecomerError as LatecomerError
    from latecomer.errors import PipelineError as PipelineError
    from latecomer.errors import SinkError as SinkError
    from latecomer.errors import SinkOutage as SinkOutage
    from latecomer.errors import SourceError as SourceError
    from latecomer.errors import SourceOutage as SourceOutage
    from latecomer.errors import StoreInUse as StoreInUse
    from latecomer.frames import Into as Into
    from latecomer.frames import append as append
    from latecomer.frames import into as into
    from latecomer.model.durations import Duration as Duration
    from latecomer.model.strategies import Adaptive as Adaptive
    from latecomer.model.strategies import Ascending as Ascending
    from latecomer.model.strategies import Bounded as Bounded
    from latecomer.model.strategies import Needs as Needs
    from latecomer.model.strategies import Percentile as Percentile
    from latecomer.model.strategies import Punctuated as Punctuated
    from latecomer.model.strategies import Strategy as Strategy
    from latecomer.model.strategies import TickSummary as TickSummary
    from latecomer.model.triggers import AfterFirst as AfterFirst
    from latecomer.model.triggers import AllOf as AllOf
    from latecomer.model.triggers import AnyOf as AnyOf
    from latecomer.model.triggers import Count as Count
    from latecomer.model.triggers import Every as Every
    from latecomer.model.triggers import Trigger as Trigger
    from latecomer.model.triggers import Until as Until
    from latecomer.model.triggers import When as When
    from latecomer.model.windows import Calendar as Calendar
    from latecomer.model.windows import Global as Global
    from latecomer.model.windows import Session as Session
    from latecomer.model.windows import Sliding as Sliding
    from latecomer.model.windows import Tumbling as Tumbling
    from latecomer.model.written_numbers import Numbers as Numbers
    from latecomer.model.written_numbers import Signs as Signs
    from latecomer.notebook import Pipeline as Pipeline
    from latecomer.notebook import load_pipeline as load_pipeline
    from latecomer.observe.advise.page import Advice as Advice
    from latecomer.observe.nowcast.report import Nowcast as Nowcast
    from latecomer.store.rebuilds import Rebuild as Rebuild

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
    "config.models": "Event",
    "config.operation": "Alerts Lease Retention",
    "config.outputs": "Output",
    "config.user_classes": "Decoder PolledSource",
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
    "notebook": "Pipeline load_pipeline",
    "observe.advise.page": "Advice",
    "observe.nowcast.report": "Nowcast",
    "store.rebuilds": "Rebuild",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}
"""The module of each name. It is imported on first use: `latecomer --help` needs none, and reading no Spark."""
__all__ = sorted(_PLACES)


def __getattr__(name: str) -> object:
    if name in _PLACES:
        from importlib import import_module

        public = globals()[name] = getattr(import_module(f"latecomer.{_PLACES[name]}"), name)
        return public
    raise AttributeError(f"module 'latecomer' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
