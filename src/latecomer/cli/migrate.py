"""`latecomer migrate`: a breaking change of a schema in four phases."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from latecomer.cli.migrate_shown import print_drift, print_status, print_step, require_no_csv
from latecomer.cli.options import (
    Format,
    Formatted,
    WrongUsage,
    command,
    hush_spark,
    load,
    moment_of,
    note,
    print_json,
    show,
)
from latecomer.cli.verbs import group
from latecomer.model.durations import to_micros
from latecomer.model.zoned import moment

if TYPE_CHECKING:
    from latecomer.after.migrate.drift import Drift
    from latecomer.schemas.migrations import Migration
    from latecomer.schemas.registry.client import Client

migrate = group("migrate")

File = Annotated[Path, typer.Argument(metavar="FILE", help="The migration file.")]
PipelineFile = Annotated[
    Path | None, typer.Option("--pipeline", help="The pipeline whose log has the events.", metavar="FILE")
]


@migrate.command("new")
def new(file: File) -> None:
    """Write a migration file to begin with. An existing file is not changed."""
    from latecomer.config.migrations import TEMPLATE
    from latecomer.schemas.migrations.definition import NAME

    if not NAME.fullmatch(file.stem):
        fix = "name the file after the migration, such as fare-cents.yaml"
        raise WrongUsage("FILE", str(file), "is not the name of a migration", fix)
    try:
        with open(file, "x", encoding="utf-8") as made:
            made.write(TEMPLATE.format(name=file.stem, file=file))
    except FileExistsError:
        raise WrongUsage(
            "FILE", str(file), "exists already, and is not changed", "give another name"
        ) from None
    print(f"{file}: describe the change in it, then run {command('migrate', 'plan', file)}")


@migrate.command("plan")
def plan(file: File, form: Formatted = Format.TABLE) -> None:
    """Print the calendar of the phases: when each began, or can begin at the earliest."""
    import pyarrow as pa

    from latecomer.schemas.migrations import calendar
    from latecomer.store.layout import TIMESTAMP

    migration, client = _opened(file)
    found = calendar(migration, client.migration(migration.migration), _now())
    rows = pa.table(
        {
            "phase": pa.array([str(each.phase) for each in found], pa.string()),
            "begins": pa.array([each.at for each in found], pa.int64()).cast(TIMESTAMP),
            "begun": pa.array([each.entered for each in found], pa.bool_()),
            "soak": pa.array([each.soak for each in found], pa.int64()).cast(pa.duration("us")),
            "what_happens": pa.array([_WHAT[str(each.phase)] for each in found], pa.string()),
        }
    )
    show(rows, form, "")


_WHAT = {
    "expand": "the schema has both shapes; producers may write the new one",
    "dual_write": "producers write both shapes in every event; drift is watched",
    "migrate": "consumers move to the new shape, each on its own day",
    "contract": "the schema has the new shape alone; producers drop the old one",
}


@migrate.command("status")
def status(file: File, form: Formatted = Format.TABLE) -> None:
    """Print where a migration stands, why it cannot advance yet, and who is to be asked."""
    from latecomer.after.migrate.steps import look

    migration, client = _opened(file)
    print_status(look(client, migration, _now()), form)


@migrate.command("check")
def check(
    file: File,
    pipeline: PipelineFile = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Only events that arrived at this moment or later; by default, those of the last soak time.",
            metavar="T",
        ),
    ] = None,
    examples: Annotated[int, typer.Option(help="How many drifting events to show.", min=0, max=1000)] = 5,
    fail: Annotated[
        bool, typer.Option("--fail-on-drift", help="Exit 1 if more events drift than drift_limit allows.")
    ] = False,
    without_registry: Annotated[
        bool, typer.Option("--no-registry", help="Use no registry; check all events, or those since --since.")
    ] = False,
    form: Formatted = Format.TABLE,
) -> None:
    """Compare the two shapes of every event in a pipeline's log.

    The registry keeps the result for the next phase, unless --since or --no-registry is given.
    """
    from latecomer.after.migrate.steps import keep_measured, look
    from latecomer.config.migrations import load_migration
    from latecomer.schemas.migrations import due_since

    if pipeline is None:
        raise WrongUsage("--pipeline", False, "is missing", "name the pipeline whose log has the events")
    start = None if since is None else to_micros(moment_of("--since", since))
    if without_registry:
        migration = load_migration(file)
        drift = _measured(migration, pipeline, start, examples)
    else:
        migration, client = _opened(file)
        situation = look(client, migration, _now(), briefly=True)
        from_then = due_since(migration, situation.state, situation.now) if start is None else start
        drift = _measured(migration, pipeline, from_then, examples)
        if since is None and situation.state.phase is not None:
            keep_measured(client, situation, drift.events, drift.drifted)
    print_drift(migration, drift, form)
    whole = drift.complete_since
    if whole is not None and (drift.since is None or drift.since < whole):
        note(f"retention has removed events before {moment(whole)} from the log; they are not counted")
    if fail and drift.share > migration.drift_limit:
        raise typer.Exit(1)


@migrate.command("advance")
def advance(file: File, pipeline: PipelineFile = None, form: Formatted = Format.TABLE) -> None:
    """Go on to the next phase, and register its schema.

    With --pipeline, drift is measured first. If something stands in the way, it is printed, and the exit code is 1.
    """
    from latecomer.after.migrate.steps import advance as go_on
    from latecomer.after.migrate.steps import keep_measured, look
    from latecomer.schemas.migrations import due_since

    migration, client = _opened(file)
    situation = look(client, migration, _now())
    if pipeline is not None and situation.state.phase is not None:
        since = due_since(migration, situation.state, situation.now)
        drift = _measured(migration, pipeline, since, 0)
        keep_measured(client, situation, drift.events, drift.drifted)
        situation = look(client, migration, _now())
    print_step(situation, go_on(client, situation), form)


@migrate.command("rollback")
def rollback(file: File, form: Formatted = Format.TABLE) -> None:
    """Go back to the phase before. Registered schemas can still be read by their ids."""
    from latecomer.after.migrate.steps import look, roll_back

    migration, client = _opened(file)
    situation = look(client, migration, _now(), briefly=True)
    was = situation.state.phase
    print_step(situation, roll_back(client, situation), form)
    if str(was) == "contract":
        for name, sql in migration.backward.items():
            note(f"events that were written without {name} have it by: {sql}")
        note(
            f"{command('migrate', 'tables', file)} --pipeline FILE --apply brings it back to the tables of sinks"
        )


@migrate.command("tables")
def tables(
    file: File,
    pipeline: PipelineFile = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make the views, and drop or bring back the old columns.")
    ] = False,
    form: Formatted = Format.TABLE,
) -> None:
    """Print what the tables of a pipeline's sinks need in this phase: a view with both shapes, old columns dropped.

    In contract, old columns are dropped if no row loses a value; after a rollback they come back, filled.
    """
    from latecomer.after.migrate.sink_tables import sink_tables
    from latecomer.store.store import open_store

    require_no_csv(form)
    if pipeline is None:
        raise WrongUsage("--pipeline", False, "is missing", "name the pipeline whose sinks have the tables")
    migration, client = _opened(file)
    state = client.migration(migration.migration)
    found = list(sink_tables(open_store(load(pipeline)), migration, state, apply=apply))
    if form is Format.JSON:
        rows = [
            {
                "sink": each.field,
                "kind": each.kind,
                "target": each.target,
                "table": each.table,
                "drop": list(each.steps.drops),
                "bring_back": list(each.steps.brings),
                "view": each.view,
                "applied": apply,
            }
            for each in found
        ]
        print_json({"migration": migration.migration, "phase": str(state.phase), "tables": rows})
        return
    for each in found:
        print(f"{each.kind} {each.target}, table {each.table}: {each.steps}")
        print(f"  {each.view}")
    if not found:
        note("no sink of the pipeline has a table with columns of events; only late_to has such tables")
    elif not apply:
        note("nothing was changed; --apply does it")


@migrate.command("seen")
def seen(
    file: File,
    consumer: Annotated[str, typer.Option(help="The consumer's name in the file.", metavar="NAME")],
    form: Formatted = Format.TABLE,
) -> None:
    """Record that a consumer runs with its reader schema in the file. Call it from the consumer's deployment."""
    from latecomer.errors import did_you_mean

    migration, client = _opened(file)
    if consumer not in migration.consumers:
        raise WrongUsage(
            "--consumer", consumer, "is not in the file", did_you_mean(consumer, migration.consumers)
        )
    client.migration(migration.migration)  # fails if the registry keeps no migrations
    reader = json.dumps(migration.consumers[consumer].reader)
    state = client.consumer_seen(migration.migration, consumer, reader)
    at = moment(state.seen[consumer].at)
    if form is Format.TABLE:
        print(f"{consumer} seen at {at}")
    else:
        print_json({"migration": migration.migration, "consumer": consumer, "seen": at})


# What the verbs share


def _opened(file: Path) -> tuple[Migration, Client]:
    """The migration of a file, and the registry that keeps it."""
    from latecomer.config.migrations import load_migration, registry_of
    from latecomer.schemas.registry.client import Client

    migration = load_migration(file)
    url, token = registry_of(migration, file.parent)
    return migration, Client(url, token=token)


def _now() -> int:
    return time.time_ns() // 1000


def _measured(migration: Migration, pipeline: Path, since: int | None, examples: int) -> Drift:
    from latecomer.after.migrate.drift import measure_drift
    from latecomer.schemas.migrations import checks_of
    from latecomer.store.store import open_store

    store = open_store(load(pipeline))
    if checks_of(migration, store.layout.types).needs_spark:
        hush_spark()
    return measure_drift(store, migration, since, examples)
