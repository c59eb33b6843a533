"""`latecomer rebuild`: windows computed anew from the log; only what changed is published."""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from latecomer.cli.options import (
    File,
    Format,
    Formatted,
    From,
    OutputName,
    To,
    WrongUsage,
    Zoned,
    command,
    hush_spark,
    load,
    note,
    print_json,
    range_of,
    refusal,
    show,
)
from latecomer.cli.verbs import group
from latecomer.config.checks import require_output
from latecomer.model.durations import format_duration
from latecomer.model.zoned import moment

if TYPE_CHECKING:
    from latecomer.after.rebuild.rebuilding import Applied
    from latecomer.config.models import Pipeline
    from latecomer.log.progress import LogProgress
    from latecomer.store.rebuilds import Rebuild

Last = Annotated[
    str | None,
    typer.Option(
        "--last",
        help="Instead: windows that ended, or that late events came for, within this long, such as 4h.",
        metavar="DURATION",
    ),
]

LOG = logging.getLogger(__name__)

rebuild = group("rebuild")


@rebuild.command("plan")
def plan(
    file: File,
    output: OutputName,
    since: From = None,
    until: To = None,
    last: Last = None,
    form: Formatted = Format.TABLE,
    zone: Zoned = None,
) -> None:
    """Print what a rebuild would change. Nothing is published; the plan is kept, and can be applied."""
    from latecomer.after.rebuild import rebuilding

    pipeline = load(file, zone, output)
    hush_spark()
    first, end = _range(pipeline, output, since, until, last)
    plan = rebuilding.plan(pipeline, output, first, end, watch=_watch)
    if form is Format.TABLE:
        _print_plan(plan)
        if not plan.kept:
            note("the plan is not kept: you cannot write to the store; somebody who can may apply the range")
        elif plan.record.changes or plan.record.definition is not None:
            print(f"\n{command('rebuild', 'apply', file, output, '--plan', plan.id)}")
    else:
        _print_record(plan, form)


@rebuild.command("apply")
def apply(
    file: File,
    output: OutputName,
    since: From = None,
    until: To = None,
    last: Last = None,
    planned: Annotated[
        str | None, typer.Option("--plan", help="Execute exactly this plan.", metavar="ID")
    ] = None,
    form: Formatted = Format.TABLE,
    zone: Zoned = None,
) -> None:
    """Publish what a rebuild changes: the plan that is named, else the range as it is now.

    It can be called while the pipeline runs: the run publishes it between two batches.
    """
    from latecomer.after.rebuild import rebuilding

    pipeline = load(file, zone, output)
    if planned is not None and (since, until, last) != (None, None, None):
        raise WrongUsage("--plan", planned, "has its own range", "leave --from, --to and --last out")
    hush_spark()
    first, end = (None, None) if planned is not None else _range(pipeline, output, since, until, last)
    done = rebuilding.apply(pipeline, output, first, end, plan_id=planned, watch=_watch)
    if form is Format.TABLE:
        _print_plan(done.rebuild)
        print(f"\n{_report(done)}")
    else:
        _print_record(done.rebuild, form, {"batch": done.batch, "beside": done.beside, "before": done.before})


@rebuild.command("list")
def list_(file: File, output: OutputName, form: Formatted = Format.TABLE, zone: Zoned = None) -> None:
    """The plans there are, and the rebuilds that were published: when, how long they took, and how much changed."""
    import pyarrow as pa

    from latecomer.store.rebuilds import Rebuilds
    from latecomer.store.store import open_store

    pipeline = load(file, zone, output)
    require_output(pipeline, output)
    store = open_store(pipeline)
    rows = [
        {
            "plan": each.id,
            "state": "published" if each.batch is not None else "stale" if each.stale else "planned",
            "batch": each.batch,
            "from": _moment(each.record.since),
            "to": _moment(each.record.until),
            "through_batch": each.record.through,
            "redefined": each.record.definition is not None,
            "windows": each.record.counts.get("computed"),
            "windows_changed": each.record.counts["windows"],
            **{name: each.record.counts[name] for name in ("new", "changed", "withdrawn")},
            "seconds": each.seconds,
            "made_at": _moment(each.record.made_at),
        }
        for each in sorted(Rebuilds(store.root, output), key=lambda each: each.record.made_at)
    ]
    show(pa.Table.from_pylist(rows), form, f"output {output} has not been rebuilt, and no rebuild is planned")


@rebuild.command("schedule")
def schedule(file: File) -> None:
    """Print the crontab lines of the file's `schedule` section."""
    pipeline = load(file)
    if not pipeline.schedule:
        fix = "add it to the pipeline file, such as\n      schedule: {OUTPUT: {every: 1h, last: 4h}}"
        raise WrongUsage("FILE", str(file), "has no schedule section", fix)
    folder, command = Path(file).resolve().parent, Path(sys.argv[0]).resolve()
    program = str(command) if command.name == "latecomer" else "latecomer"
    for output, each in pipeline.schedule.items():
        length = format_duration(each.last)
        words = [program, "rebuild", "apply", str(Path(file).name), output, "--last", length]
        # In a crontab, % means a new line.
        line = f"cd {shlex.quote(str(folder))} && {shlex.join(words)}".replace("%", r"\%")
        print(f"{each.when()} {line}")


def _range(
    pipeline: Pipeline, output: str, since: str | None, until: str | None, last: str | None
) -> tuple[int | None, int | None]:
    require_output(pipeline, output)
    from latecomer.after.rebuild.ranges import RangeNames, range_asked

    first, end = range_of(("--from", since), ("--to", until))
    names = RangeNames("--from", "--to", "--last", "--from T --to T, or --last 4h")
    refused = refusal({"--from": since, "--last": last})
    return range_asked(pipeline, output, first, end, last, names, refused)


def _moment(micros: int) -> str | None:
    from latecomer.model.verdicts import END_OF_TIME

    return None if micros == END_OF_TIME else moment(micros)


def _print_plan(plan: Rebuild) -> None:
    import pyarrow as pa

    from latecomer.cli.render import print_table
    from latecomer.store.rebuilds import changed_sums, largest_changes, plan_lines, plan_title

    print(plan_title(plan))
    for line in plan_lines(plan.record):
        print(f"  {line}")
    if changed := changed_sums(plan.record):
        print()
        print_table(pa.Table.from_pylist(changed))
    if plan.record.largest:
        print("\nthe largest changes")
        print_table(pa.Table.from_pylist(list(largest_changes(plan.record))))


def _print_record(plan: Rebuild, form: Format, more: dict[str, Any] | None = None) -> None:
    import pyarrow as pa

    from latecomer.store.rebuilds import largest_changes

    record = asdict(plan.record)
    for name in ("since", "until", "watermark", "low", "high", "made_at"):
        record[name] = _moment(record[name])
    if form is Format.JSON:
        print_json({"plan": plan.id, **record, **(more or {})})
    else:
        show(pa.Table.from_pylist(list(largest_changes(plan.record))), form, "")


def _report(done: Applied) -> str:
    if done.batch is None:
        return "nothing to publish"
    if done.before:
        return f"nothing to do: it was published before, as batch {done.batch}"
    how = " by the running pipeline" if done.beside else ""
    return f"published{how} as batch {done.batch}"


def _watch(progress: LogProgress) -> None:
    """How much of the log has been read, how fast, and how long it will take."""
    if progress.is_read:
        LOG.info("computing what changes, from %s rows of the log", f"{progress.rows:,}")
        return
    if not progress.share:
        LOG.info("reading the log: %s rows", f"{progress.rows:,}")
        return
    remaining = "" if progress.left is None else f", {progress.left:.0f} s left"
    LOG.info(
        "reading the log: %.0f %% of %s rows, %s rows/s%s",
        100 * progress.share,
        f"{progress.rows:,}",
        f"{progress.rate:,.0f}",
        remaining,
    )
