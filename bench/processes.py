"""What is measured runs in a process of its own, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.usage import Memory

console = Console(width=120)


class Failed(Exception):
    """A process did not do what it was started for."""


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder that is gone when the block ends."""
    work = Path(tempfile.mkdtemp(prefix="latecomer-bench-"))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def contend(name: str, source: Path, rows: int, work: Path | None = None, **more: Any) -> dict[str, Any]:
    """One contender of `bench.contenders`, on a fresh store."""
    options = [text for key, value in more.items() for text in (f"--{key.replace('_', '-')}", str(value))]
    return measured("bench.contenders", name, str(source), "--rows", str(rows), *options, work=work)


def measured(module: str, *options: str, work: Path | None = None) -> dict[str, Any]:
    """What a module measured in a folder to work in, which is kept where it is given."""
    with contextlib.nullcontext(work) if work else work_folder() as folder:
        return answer([sys.executable, "-m", module, *options, "--work", str(folder)], folder / "errors")


def answer(
    command: Sequence[str],
    errors: Path,
    patience: float = 7200,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The last line that a process prints, as JSON, with its peak memory unless it says that itself.

    What it prints before is shown at once. When it is over, so is all that it started.
    """
    with (
        open(errors, "w+", encoding="utf-8") as kept,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=kept, text=True, env=environment, start_new_session=True
        ) as process,
    ):
        limit, memory = threading.Timer(patience, _end, [process]), Memory(process.pid)
        limit.start()
        try:
            said = _last_line(process)
            if process.wait():
                kept.seek(0)
                shown = " ".join(command[:4])
                late = "" if limit.is_alive() else f" after {patience:.0f} s"
                raise Failed(f"{shown} … failed ({process.returncode}){late}:\n{kept.read()[-3000:]}")
        finally:
            limit.cancel()
            memory.stop()
            _end(process)
    return {"peak": memory.peak, **json.loads(said)}


def _last_line(process: subprocess.Popen[str]) -> str:
    said = ""
    for line in process.stdout or ():
        if said:
            console.print(said)
        said = line.rstrip()
    return said


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
