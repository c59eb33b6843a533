"""`latecomer upgrade`: a store of an earlier version, in the format of this one."""

from __future__ import annotations

from latecomer.cli.options import DryRun, Format, Formatted
from latecomer.cli.snapshot import StoreOrFile, root_of


def upgrade(store: StoreOrFile, dry_run: DryRun = False, form: Formatted = Format.TABLE) -> None:
    """Bring a store of an earlier version to the format of this one, step by step.

    The next run does the same by itself. An earlier latecomer does not read the store afterwards: take a snapshot
    first.
    """
    import pyarrow as pa

    from latecomer.cli.render import show
    from latecomer.engine.upkeep.upgrading import upgrade as upgraded

    steps = upgraded(root_of(store)[0], dry_run=dry_run)
    rows = [
        {"step": f"{each.before} to {each.before + 1}", "what": each.what, "changes": each.changes}
        for each in steps
    ]
    show(pa.Table.from_pylist(rows), form, "nothing to do: the store has the format of this version")
