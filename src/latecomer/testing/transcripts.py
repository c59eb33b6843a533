"""Transcripts: executable specifications in YAML, with a pipeline, what happens to it, and what must come of it.

docs/transcripts.md describes the format. Everything is read and checked here, before anything runs: a
mistake is reported with file, line and fix, as in a pipeline file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from latecomer.config.all_columns import Columns
from latecomer.config.column_checks import check_columns
from latecomer.config.load import at_line, load_pipeline, pipeline_of
from latecomer.config.models import Pipeline
from latecomer.config.yaml_lines import Location, TimesAsText, compose, dotted, line_of, read_text, whole_file
from latecomer.errors import PipelineError, Problem, nearest
from latecomer.model.oracle.arrivals import Drain, Heartbeat, Partitions, Watermark
from latecomer.model.types import normal_type
from latecomer.testing.notation import LISTS, read_fates, read_row, unknown_name
from latecomer.testing.rows import Row, inferred
from latecomer.testing.scenario import Batch, Restart, Step, backwards, steered
from latecomer.testing.shapes import Shape, mistaken_sources, shape_of
from latecomer.testing.times import DAY, Times

_Kind = TypeVar("_Kind")
WHAT = "transcript"
FRAGMENT = ("profile", "event", "watermark", "outputs", "ledger")
KEYS = ("rule", "day", "pipeline", "columns", *FRAGMENT, "steps", "finally")
ACTIONS = ("batch", "heartbeat", "watermark", "partitions", "restart", "drain")
EXPECTATIONS = (*LISTS, "watermark")


@dataclass(frozen=True)
class Statement:
    """Something that must hold after a step, or in the end.

    `stated` is a list of parsed lines; for `fates` the words for each window, for `watermark` a moment.
    """

    kind: str
    line: int | None
    stated: Any
    output: str | None = None
    step: int | None = None
    row: int | None = None


@dataclass(frozen=True)
class Transcript:
    """One rule, with steps that show it."""

    file: Path
    rule: str
    shape: Shape
    steps: tuple[Step, ...]
    statements: tuple[Statement, ...]

    @property
    def name(self) -> str:
        return self.file.stem

    @property
    def pipeline(self) -> Pipeline:
        return self.shape.pipeline


def load_transcript(path: str | Path, pipeline: Pipeline | None = None) -> Transcript:
    """The transcript in a file; with `pipeline`, about that pipeline instead of the one that the file names."""
    file = Path(path)
    return parse_transcript(read_text(file, WHAT), file, pipeline)


def parse_transcript(text: str, file: Path, pipeline: Pipeline | None = None) -> Transcript:
    """The transcript in `text`. `file` is its name in errors, and the path of a pipeline is relative to it."""
    document, lines = compose(text, file, WHAT, TimesAsText)
    if not isinstance(document, dict):
        raise whole_file(file, "is not a mapping of keys to values", "start with `rule:` and `steps:`", WHAT)
    return _Reader(document, lines, file, pipeline).transcript()


class _Reader:
    """Reads one document and collects every problem in it."""

    def __init__(
        self,
        document: dict[str, Any],
        lines: Mapping[Location, int],
        file: Path,
        pipeline: Pipeline | None,
    ) -> None:
        self.document, self.lines, self.file, self.given = document, lines, file, pipeline
        self.problems: list[Problem] = []
        self.statements: list[Statement] = []
        self.rows: list[tuple[Location, Row]] = []
        self.steps: list[Step] = []
        self.by_hand = False
        self._unknown_keys((), document, KEYS)
        self.times = self._times()

    def transcript(self) -> Transcript:
        rule = self.document.get("rule")
        if not isinstance(rule, str) or not rule.strip():
            self._problem(("rule",), "is missing", fix="say in a sentence what the transcript shows")
        self.steps = steps = list(self._steps())
        if not steps and not self.problems:
            self._problem(("steps",), "is missing", fix="say what happens: a list of batches and the like")
        if wrong := backwards(steps, self.times):
            self._problem(("steps", wrong[0], "watermark"), wrong[1], "write a later time, or leave it out")
        self._stop()  # before the pipeline, whose outputs the expectations name
        self.by_hand = any(isinstance(step, Watermark) for step in steps)
        shape = self._shape()
        shape = replace(shape, pipeline=steered(shape.pipeline, steps))
        for location, row in self.rows:
            if problem := shape.sources[self._source_of(location)].problem(row):
                self._problem(location, *problem.split("; ", 1))
        self._expected(shape)
        self._stop()
        return Transcript(self.file, str(rule).strip(), shape, tuple(steps), tuple(self.statements))

    # The pipeline

    def _shape(self) -> Shape:
        fragment = {key: self.document[key] for key in FRAGMENT if key in self.document}
        named = self.document.get("pipeline")
        if self.given is not None or named is not None:
            for key in (*fragment, *(["columns"] if "columns" in self.document else [])):
                self._problem((key,), "the pipeline has its own", fix="leave it out, or leave pipeline out")
            self._stop()
            file = None if self.given else self.file.resolve().parent / str(named)
            whole = self.given or load_pipeline(str(file))
            self._of_known_sources(whole)
            return shape_of(whole, self.steps, self.times, partial(_found_columns, whole), file=file)
        if self.by_hand:
            fragment.setdefault("watermark", {"delay": "0s"})
        for key in ("watermark", "outputs"):
            if key not in fragment:
                self._problem((key,), "is missing", fix=f"add {key}:, or name a pipeline file in pipeline:")
        columns = {**inferred(row for _, row in self.rows), **self._columns()}
        event = {"time": "event_time", **self._event()}
        self._stop()
        pipeline = pipeline_of(
            {
                **fragment,
                "name": "transcript",
                "store": "store",
                "source": {"files": {"path": "arrivals", "order_by": "arrival_time"}},
                "event": event,
            },
            self.file,
            self.lines,
        )
        self._of_known_sources(pipeline)
        known = {event["time"]: "string", "arrival_time": "string", **columns}
        if problems := check_columns(pipeline, known):
            raise PipelineError([at_line(problem, self.file, self.lines) for problem in problems])
        return Shape(pipeline, Columns(known), self.times)

    def _of_known_sources(self, pipeline: Pipeline) -> None:
        """Stop if a step names an unknown source."""
        for number, problem in mistaken_sources(pipeline, self.steps):
            self._problem(("steps", number, problem.field), problem.message, problem.fix, problem.value)
        self._stop()

    def _source_of(self, location: Location) -> str:
        """The source of the row at this place."""
        step, place = self.steps[int(location[1])], location[3]
        if isinstance(place, str):
            return place
        return step.source if isinstance(step, Batch) else ""

    def _event(self) -> dict[str, Any]:
        written, fix = self.document.get("event") or {}, "write what its columns are, as in {id: txn}"
        return self._of_type(dict, ("event",), written, "is not a mapping", fix, value=written)

    def _columns(self) -> dict[str, str]:
        written, fix = self.document.get("columns", {}), "write column: type, as in {paise: bigint}"
        columns = {}
        for name, kind in self._of_type(dict, ("columns",), written, "is not a mapping", fix).items():
            try:
                columns[str(name)] = normal_type(str(kind))
            except ValueError as error:
                self._problem(("columns", name), *_problem_and_fix(error), value=kind)
        return columns

    def _times(self) -> Times:
        day = self.document.get("day", DAY)
        try:
            return Times(str(day))
        except ValueError:
            self._problem(("day",), "is not a date", "write it as 2026-04-25", day)
            return Times()

    # Steps

    def _steps(self) -> Iterator[Step]:
        written, fix = self.document.get("steps", []), "begin each step with a dash"
        for index, each in enumerate(self._of_type(list, ("steps",), written, "is not a list", fix)):
            location: Location = ("steps", index)
            step = {each: None} if each in ("restart", "drain") else each
            named = _actions(step)
            if len(named) != 1:
                self._problem(location, "is not one step", f"write one of {', '.join(ACTIONS)}")
                continue
            also = ("source",) if named == ["batch"] else ()
            self._unknown_keys(location, step, (named[0], *also, *EXPECTATIONS))
            yield from self._step(location, named[0], step[named[0]], step.get("source"))

    def _step(self, location: Location, action: str, written: Any, source: Any) -> Iterator[Step]:
        place = (*location, action)
        if action in ("restart", "drain"):
            if written is not None:
                self._problem(place, "takes nothing", f"write {action}: alone", written)
            yield Restart() if action == "restart" else Drain()
        elif action in ("heartbeat", "watermark"):
            moment = self._try(place, self.times.read, written) or 0
            yield Heartbeat(moment) if action == "heartbeat" else Watermark(moment)
        elif action == "partitions":
            yield Partitions(self._partitions(place, written))
        elif isinstance(written, dict) and source is None:
            read = {str(name): self._rows((*place, str(name)), rows) for name, rows in written.items()}
            sources = (name for name, rows in read.items() for _ in rows)
            yield Batch(tuple(row for rows in read.values() for row in rows), sources=tuple(sources))
        else:
            yield Batch(self._rows(place, written), self._source(location, source))

    def _rows(self, place: Location, written: Any) -> tuple[Row, ...]:
        fix = "write each row on a line of its own"
        rows = self._of_type(list, place, written, "is not a list of rows", fix)
        return tuple(self._row((*place, index), line) for index, line in enumerate(rows))

    def _source(self, location: Location, written: Any) -> str:
        if written is None or (isinstance(written, str) and written):
            return written or ""
        self._problem((*location, "source"), "is not the name of a source", "write one name", written)
        return ""

    def _partitions(self, place: Location, written: Any) -> dict[str, bool]:
        named = written if isinstance(written, dict) else {}
        if not named or not {*named.values()} <= {"read", "unread"}:
            fix = (
                "write each partition and whether the next batch reads all of it, as in {a: read, b: unread}"
            )
            self._problem(place, "does not name partitions", fix, written)
        return {str(name): more == "unread" for name, more in named.items()}

    def _row(self, location: Location, written: Any) -> Row:
        line, arrow, fates = written.partition("->") if isinstance(written, str) else (written, "", "")
        row: Row = self._try(location, lambda text: read_row(text, self.times), line) or Row(None, 0)
        step = int(location[1])
        if arrow and not fates.strip():
            fix = "say what becomes of the row, as in -> on_time, or leave -> out"
            self._problem(location, "nothing is written after ->", fix, written)
        for part in fates.split(";") if fates.strip() else []:
            output, _, words = part.rpartition("=")
            stated = self._try(location, read_fates, words.strip())
            where = line_of(location, self.lines)
            self.statements.append(
                Statement("fates", where, stated, output.strip() or None, step, len(self.rows))
            )
        self.rows.append((location, row))
        return row

    # Expectations

    def _expected(self, shape: Shape) -> None:
        pipeline = shape.pipeline
        steps = self.document["steps"]
        for index, step in enumerate(steps):
            if isinstance(step, dict):
                stated = {key: value for key, value in step.items() if key not in _actions(step)}
                self._expectations(("steps", index), stated, index, shape)
        written, fix = self.document.get("finally", {}), f"the keys here are {', '.join(EXPECTATIONS)}"
        last = self._of_type(dict, ("finally",), written, "is not a mapping", fix)
        self._unknown_keys(("finally",), last, EXPECTATIONS)
        self._expectations(("finally",), last, None, shape)
        for each in self.statements:
            if each.kind == "fates":
                self._of_known_output(each, pipeline)
        if not self.statements:
            self._problem(
                ("steps",), "nothing is expected", "say what must come of it: panes, fates, results …"
            )

    def _expectations(
        self, location: Location, written: Mapping[str, Any], step: int | None, shape: Shape
    ) -> None:
        names = list(shape.pipeline.outputs)
        for kind in EXPECTATIONS:
            if kind not in written:
                continue
            place, value = (*location, kind), written[kind]
            if kind == "watermark":
                stated = self._try(place, self.times.read_watermark, value)
                self.statements.append(Statement(kind, line_of(place, self.lines), stated, None, step))
            elif isinstance(value, dict):
                self._unknown_keys(place, value, names)
                for output in (name for name in value if name in names):
                    self._listed((*place, output), kind, value[output], output, step, shape)
            elif len(names) > 1:
                self._problem(place, "of which output?", f"write {kind}: {{{names[0]}: […]}}")
            else:
                self._listed(place, kind, value, names[0], step, shape)

    def _listed(
        self, place: Location, kind: str, written: Any, output: str, step: int | None, shape: Shape
    ) -> None:
        fix = "write each line with a dash before it, or none"
        lines = [] if written == "none" else self._of_type(list, place, written, "is not a list", fix)
        read, pipeline, stated = LISTS[kind][0], shape.pipeline, []
        for index, line in enumerate(lines):
            each = self._try((*place, index), lambda text: read(text, self.times), line)
            stated.append(each)
            if problem := unknown_name(each, pipeline.outputs[output], shape.given, pipeline.ledger):
                self._problem((*place, index), *problem.split("; ", 1))
        self.statements.append(Statement(kind, line_of(place, self.lines), stated, output, step))

    def _of_known_output(self, statement: Statement, pipeline: Pipeline) -> None:
        names = list(pipeline.outputs)
        if statement.output is None and len(names) > 1:
            problem = "of which output?", f"write -> {names[0]}=on_time; {names[1]}=…"
        elif statement.output is not None and statement.output not in names:
            problem = f"there is no output {statement.output}", f"there are {', '.join(names)}"
        else:
            return
        self.problems.append(
            Problem("steps", problem[0], fix=problem[1], file=str(self.file), line=statement.line)
        )

    # Problems

    def _try(self, location: Location, read: Callable[[str], Any], written: Any) -> Any:
        if isinstance(written, dict | list):
            self._problem(location, "is not one line of text", "put it in quotes, or take the colon out")
            return None
        try:
            return read(str(written))
        except ValueError as error:
            self._problem(location, *_problem_and_fix(error), value=str(written))
            return None

    def _of_type(
        self, kind: type[_Kind], location: Location, written: Any, message: str, fix: str, value: Any = None
    ) -> _Kind:
        """What is written; an empty value and a problem if it is not of this type."""
        if isinstance(written, kind):
            return written
        self._problem(location, message, fix, value)
        return kind()

    def _unknown_keys(self, location: Location, written: Mapping[str, Any], known: Sequence[str]) -> None:
        for key in written:
            if key not in known:
                fix = nearest(str(key), known, f"the keys here are {', '.join(known)}")
                self._problem((*location, str(key)), "unknown key", fix)

    def _problem(self, location: Location, message: str, fix: str | None = None, value: Any = None) -> None:
        self.problems.append(
            Problem(dotted(location), message, value, fix, str(self.file), line_of(location, self.lines))
        )

    def _stop(self) -> None:
        if self.problems:
            raise PipelineError(sorted(self.problems, key=lambda problem: problem.line or 0))


def _actions(step: Any) -> list[str]:
    """The actions of a step. `watermark` beside another action is an expectation."""
    written = step if isinstance(step, dict) else {}
    named = [action for action in ACTIONS if action in written]
    if named == ["watermark"] and written.keys() <= set(EXPECTATIONS):
        return named
    return [action for action in named if action != "watermark"]


def _problem_and_fix(error: ValueError) -> tuple[str, str | None]:
    message, _, fix = str(error).partition("; ")
    return message, fix or None


def _found_columns(pipeline: Pipeline, name: str, view: Pipeline) -> Mapping[str, str] | None:
    """A source's columns: as the pipeline file declares them, or as a run would find them; None if there is nothing to
    read yet."""
    if (declared := view.declared_columns) is not None:
        return declared
    from latecomer.config.paths import list_files
    from latecomer.store.pins import read_pins
    from latecomer.store.source_columns import source_columns

    if read_pins(pipeline.store_path) is not None:
        return source_columns(pipeline).read_from(name)
    is_readable = view.source.polled or list_files(view.source_path)
    return source_columns(view) if is_readable else None
