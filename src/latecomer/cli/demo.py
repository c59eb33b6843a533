"""`latecomer demo`: Diwali night, the same arrivals through four outputs, side by side; or another story."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from latecomer.cli.options import hush_spark


class Story(StrEnum):
    """The stories there are."""

    DIWALI = "diwali"
    BOOKMYSHOW = "bookmyshow"


def demo(
    folder: Annotated[
        Path | None, typer.Option(help="Where to put the scenario; a temporary folder by default.")
    ] = None,
    story: Annotated[
        Story, typer.Option(help="bookmyshow: an hour that is corrected, then rebuilt.")
    ] = Story.DIWALI,
) -> None:
    """Run the Diwali scenario: 300,000 payments, one tower sixteen minutes late, four late policies."""
    from rich.console import Console

    from latecomer.errors import LatecomerError
    from latecomer.spark.java import required_java

    console = Console(highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = 110
    began = time.monotonic()
    required_java()
    home = (folder or Path(tempfile.mkdtemp(prefix="latecomer-demo-"))).resolve()
    if folder is not None and home.exists() and any(home.iterdir()):
        raise LatecomerError(f"--folder {folder}: is not empty; name a new folder")
    hush_spark()
    if story is Story.BOOKMYSHOW:
        from latecomer.cli.stories.bookmyshow_story import run_story
    else:
        from latecomer.cli.stories.diwali import run_story
    further, work = run_story(console, home)
    console.print(f"\n{time.monotonic() - began:.0f} seconds, Spark's start included. Look further:")
    for line in further:
        console.print(f"  {as_typed()} {line}", soft_wrap=True)
    console.print(f"\n{work.in_words}")


def as_typed() -> str:
    """How to type the command in this shell: by name if the PATH has it, else by path."""
    program, on_path = Path(sys.argv[0]).resolve(), shutil.which("latecomer")
    if on_path is not None and Path(on_path).resolve() == program:
        return "latecomer"
    if program.name != "latecomer":
        return f"{sys.executable} -m latecomer"
    return os.path.relpath(program) if program.is_relative_to(Path.cwd()) else str(program)
