"""Where peers are installed: a virtual environment each, with one pinned version, below `build/`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from bench.processes import console

FOLDER = Path("build/peers")


class NotHere(Exception):
    """A peer cannot be installed here; the message says why."""


def python_of(requirement: str) -> Path:
    """The Python of an environment that has a package, which is installed first if need be."""
    folder = FOLDER / requirement.replace("==", "-")
    python, done = folder.absolute() / "bin" / "python", folder / ".done"
    if not done.exists():
        console.print(f"installing {requirement} …")
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        installed = subprocess.run(pip, capture_output=True, text=True)
        if installed.returncode:
            version = f"{sys.version_info.major}.{sys.version_info.minor}"
            said = [line for line in installed.stderr.splitlines() if line.startswith("ERROR")]
            reason = said[-1] if said else f"pip failed ({installed.returncode})"
            raise NotHere(f"{requirement} cannot be installed for Python {version}: {reason}")
        done.touch()
    return python
