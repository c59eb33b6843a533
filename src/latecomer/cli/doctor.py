"""`latecomer doctor`: whether everything that a run needs is there."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.doctor_machine import Finding, java, machine, on_executors, packages, ports, problem
from latecomer.cli.options import Master
from latecomer.errors import LatecomerError
from latecomer.errors.redacting import redacted
from latecomer.model.counting import counted
from latecomer.objects.locations import Url

if TYPE_CHECKING:
    from latecomer.config.all_columns import Columns
    from latecomer.config.kafka import KafkaTopics
    from latecomer.config.models import Pipeline
    from latecomer.config.registered import Registered

LOW_DISK = 1 << 30
LISTED = 16
"""How many partitions of a topic are listed."""


def doctor(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A pipeline file, to look at its source, sinks and store too."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Run a task on every executor of --master, and look there.")
    ] = False,
    master: Master = None,
) -> None:
    """Check Java, Spark, packages, memory and, with FILE, source, sinks and store. Exit 1 on a problem."""
    from latecomer.spark.master import use_master

    use_master(master)
    problems = 0
    for finding in (*examine(file), *(on_executors() if cluster else ())):
        typer.echo(str(finding))
        problems += finding.fix is not None
    if problems:
        typer.echo(f"{counted(problems, 'problem')} found")
        raise typer.Exit(1)


def examine(file: Path | None) -> Iterator[Finding]:
    """Every finding, in the order in which a run would meet it."""
    yield Finding("python", platform.python_version())
    yield from packages()
    yield java()
    yield ports()
    yield from machine()
    if file is not None:
        yield from _of_pipeline(file)


def _of_pipeline(file: Path) -> Iterator[Finding]:
    from latecomer.cli.options import load
    from latecomer.config.load import check_secrets

    try:
        pipeline = load(file)
    except LatecomerError as error:
        yield Finding("pipeline", str(error), "correct the pipeline file")
        return
    yield Finding("pipeline", f"{pipeline.name}, outputs {', '.join(pipeline.outputs)}")
    try:
        check_secrets(pipeline, file)
    except LatecomerError as error:
        yield Finding("secrets", str(error), "set what is referred to")
    else:
        yield from _outside(pipeline, file)
        yield from expressions(pipeline, file)
    yield from store(pipeline)


def expressions(pipeline: Pipeline, file: Path) -> Iterator[Finding]:
    """The conditions and derived columns that Spark's SQL computes, before tasks get the events."""
    from latecomer.store.store import Store
    from latecomer.windowing.visible_events import spark_expressions

    try:
        columns = _columns(pipeline, file)
    except (LatecomerError, OSError):  # reported already
        return
    if columns is None:
        return
    layout = Store(pipeline, columns).layout
    for name, output in pipeline.outputs.items():
        by_spark = list(spark_expressions(output, layout).values())
        text = f"Spark's SQL computes {'; '.join(by_spark)}" if by_spark else "tasks compute all of it"
        yield Finding(f"output {name}", text)


def _outside(pipeline: Pipeline, file: Path) -> Iterator[Finding]:
    """The source and the sinks, which may be on other machines."""
    try:
        columns = _columns(pipeline, file)
    except (LatecomerError, OSError) as error:
        yield problem("source", error, "correct the source, or the pipeline file")
        return
    for name, view in pipeline.views.items():
        what = f"source {name}" if name else "source"
        yield from _or_problem(
            what, _source(what, name, view, columns), "correct the source, or the pipeline file"
        )
    yield from _or_problem("sinks", sinks(pipeline, file), "correct the pipeline file")


def _or_problem(what: str, findings: Iterator[Finding], otherwise: str) -> Iterator[Finding]:
    """Findings, up to the error that keeps the others from being made."""
    try:
        yield from findings
    except (LatecomerError, OSError) as error:
        yield problem(what, error, otherwise)


def _columns(pipeline: Pipeline, file: Path) -> Columns | None:
    """The columns of the source, checked against the pipeline; None if they cannot be known yet."""
    from latecomer.config.load import check_against
    from latecomer.store.source_columns import columns_known, source_columns

    if not columns_known(pipeline):
        return None
    columns = source_columns(pipeline, file)
    check_against(pipeline, columns, file)
    return columns


def _source(what: str, name: str, view: Pipeline, columns: Columns | None) -> Iterator[Finding]:
    """Whether a source can be read."""
    from latecomer.config.columns import view_warnings
    from latecomer.config.paths import SourcePath
    from latecomer.config.registered import Registered

    if isinstance(view.format, Registered) and view.format.registry is not None:
        yield _registry(view, view.format)
    if view.source.kafka is not None:
        yield from _kafka(what, name, view, view.source.kafka)
        return
    own = view.source.polled
    if own is not None:
        from latecomer.source.choose import source_of

        source_of(view, columns.read_from(name) if columns else {}).require()
        yield Finding(what, own.kind)
        return
    if view.source.dataframe is not None:
        yield Finding(what, "DataFrames that a program hands in")
        return
    path = SourcePath(view.source_path)
    hindrances = [*path.hindrances()]
    if hindrances:
        yield from (problem(what, sentence, "correct the source") for sentence in hindrances)
        return
    yield Finding(what, f"{counted(len(path.listed), 'file')} at {view.source_path}")
    for warning in view_warnings(view, path):
        yield Finding(what, warning, warns=True)


def _registry(view: Pipeline, registered: Registered) -> Finding:
    """Whether the registry answers, and how many of its schemas are in the store already."""
    from latecomer.store.schemas import client_of, writer_schemas

    known = len(writer_schemas(view).known)
    kept = f"{known} of its schemas {'is' if known == 1 else 'are'} in the store"
    try:
        client = client_of(registered, view.base)
        client.compatibility()
        return Finding("registry", f"{client.shown} answers, {kept}")
    except LatecomerError as error:
        finding = problem("registry", error, "start the registry, or correct its URL")
        return Finding("registry", f"{finding.found}; {kept}", finding.fix)


def _kafka(what: str, name: str, pipeline: Pipeline, topics: KafkaTopics) -> Iterator[Finding]:
    """Whether the broker answers, and how many records of each topic no run has found yet."""
    from latecomer.source.kafka.reader import KafkaReader
    from latecomer.store.answers import SourceAnswers
    from latecomer.store.store import home_of

    reader = KafkaReader(topics=topics, base=pipeline.base)
    reader.check()
    answers = SourceAnswers(home_of(pipeline.store_path, name))
    last = answers.read(answers.last())
    waiting = reader.waiting(last.until if last else None)
    yield Finding(what, f"kafka {redacted(topics.servers)}, {topics.named}, the broker answers")
    if not waiting:
        yield Finding("topics", f"none matches {topics.pattern} yet")
    for topic, partitions in waiting.items():
        listed = ", ".join(f"{number}: {count:,}" for number, count in enumerate(partitions[:LISTED]))
        more = ", …" if len(partitions) > LISTED else ""
        text = counted(len(partitions), "partition")
        yield Finding(
            f"topic {topic}",
            f"{text}, {counted(sum(partitions), 'record')} that no run has found yet ({listed}{more})",
        )


def sinks(pipeline: Pipeline, file: Path) -> Iterator[Finding]:
    """Whether each sink can be reached, and its last batch."""
    from latecomer.sink.keeper import ask_sinks
    from latecomer.store.source_columns import source_columns
    from latecomer.store.store import Store

    if not any(pipeline.listed_sinks()):
        return
    for listed, target, answer in ask_sinks(Store(pipeline, source_columns(pipeline, file))):
        what = f"{listed.sink.kind} sink of {listed.name}"
        if isinstance(answer, LatecomerError):
            yield problem(what, answer, "start the server, or correct the pipeline file")
        elif answer is None:
            yield Finding(what, f"{target}; it is not asked before a run")
        else:
            yield Finding(what, f"{target}, {'nothing in it yet' if answer < 0 else f'up to batch {answer}'}")


def store(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether the store can be written, who holds it, and what is in it."""
    root = pipeline.store_path
    if isinstance(root, Url):
        yield from _store_at_url(pipeline, root)
    else:
        yield from _store_in_folder(pipeline, Path(root))


def _store_at_url(pipeline: Pipeline, root: Url) -> Iterator[Finding]:
    from latecomer.store import files

    try:
        files.require_conditional_puts(root)
        is_made = files.exists(root / "pipeline.json")
    except LatecomerError as error:
        yield problem("store", error, "check the URL, and the credentials")
        return
    yield Finding("store", f"{root}, {'writable' if is_made else 'not made yet, and it can be'}")
    yield Finding("logs", str(files.on_this_machine(root) / "logs"))
    if is_made:
        yield Finding("in use", holder(root) or "by nobody")
        yield from _tables(pipeline)


def _store_in_folder(pipeline: Pipeline, root: Path) -> Iterator[Finding]:
    nearest = next(path for path in (root, *root.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        yield Finding("store", f"{root} cannot be written", f"make {nearest} a folder that you may write")
        return
    made = "writable" if root.exists() else "not made yet, and it can be"
    yield Finding("store", f"{root}, {made}")
    free = shutil.disk_usage(nearest).free
    low = "free some, or move the store" if free < LOW_DISK else None
    yield Finding("disk", f"{free / (1 << 30):.1f} GiB free", low)
    if not root.exists():
        return
    yield Finding("in use", holder(root) or "by nobody")
    yield from _tables(pipeline)


def holder(root: PurePath) -> str | None:
    """Who holds the store."""
    from latecomer.store.holding.lock import holder_of

    run = holder_of(root)
    return None if run is None else f"by {run[0]}"


def _tables(pipeline: Pipeline) -> Iterator[Finding]:
    from latecomer.spark.noted import noted_work
    from latecomer.store.store import open_store

    noted = noted_work(pipeline.store_path)
    if noted.runs:
        last = f"; in the last of them {noted.last.in_words}" if noted.runs > 1 else ""
        yield Finding(counted(noted.runs, "run"), f"{noted.work.in_words}{last}")
    try:
        opened = open_store(pipeline)
        tables = [
            opened.events,
            opened.duplicates,
            opened.dead_letters,
            opened.repairs,
            opened.watermarks,
            opened.ledger,
        ]
        for name in pipeline.outputs:
            kept = opened.output_tables(name, opened.ledger.schema)
            tables += [kept.partials, kept.panes, kept.late]
        for table in tables:
            if table.exists:
                files = table.files()
                rows = sum(file.rows for file in files)
                name = table.root.relative_to(opened.root).as_posix()
                yield Finding(f"table {name}", f"{counted(rows, 'row')} in {counted(len(files), 'file')}")
    except LatecomerError as error:
        yield problem("tables", error, "run the pipeline first")
