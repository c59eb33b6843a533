"""`latecomer move`: a store in another place."""

from __future__ import annotations

import sys

from latecomer.cli.options import File, Format, Formatted, load
from latecomer.cli.snapshot import To, place_of, print_copied


def move(file: File, to: To, form: Formatted = Format.TABLE) -> None:
    """Move a store to another place, and print the line that the pipeline file needs.

    No run may hold the store meanwhile. The old place cannot be used from then on; nothing in it is deleted.
    """
    from latecomer.engine.upkeep.copies import move as moved
    from latecomer.store.files import url

    pipeline = load(file)
    before = pipeline.store_path
    copied = moved(before, place_of(to, pipeline))
    print_copied(copied, form)
    print(f"in {file}, write\n    store: {url(copied.place)}", file=sys.stderr)
    print(f"then {before} can be deleted", file=sys.stderr)
