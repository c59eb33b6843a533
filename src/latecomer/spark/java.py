"""The Java and the Spark jars of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyspark

from latecomer.errors import MachineError
from latecomer.errors.system import refusal_of

JAVA_AT_LEAST = 17
_LONGEST = 60
"""Seconds to wait for Java to say its version."""


@dataclass(frozen=True)
class Java:
    """The Java that Spark would use."""

    version: int
    version_text: str
    """Its own text: the whole version, who built it, and for which machine."""


def required_java() -> Java:
    """The Java that Spark would use. `MachineError` where there is none that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME is {home}, and there is no java in it" if home else "no java is on the PATH"
        raise MachineError(
            f"Java {JAVA_AT_LEAST} or newer is needed and {where}; install it "
            "(Debian: apt install openjdk-17-jre-headless, macOS: brew install openjdk@17)"
        )
    try:
        answer = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=_LONGEST, check=False
        ).stderr
    except subprocess.TimeoutExpired:
        raise MachineError(f"Java at {java} does not answer within {_LONGEST} s; run again") from None
    except OSError as error:
        refusal = refusal_of(error)
        fix = refusal.fix if refusal is not None else f"install Java {JAVA_AT_LEAST} or newer"
        raise MachineError(f"Java at {java} cannot be started ({error.strerror}); {fix}") from None
    # Java also prints the options that it has picked up from the environment.
    version_text = "\n".join(line for line in answer.splitlines() if "Picked up" not in line)
    match = re.search(r'version "(?:1\.)?(\d+)', version_text)
    version = int(match[1]) if match else 0
    if version < JAVA_AT_LEAST:
        raise MachineError(
            f"Java {JAVA_AT_LEAST} or newer is needed, and {java} is Java {version or 'of unknown version'}; "
            "install a newer one (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME to it"
        )
    return Java(version, version_text)


def spark_jars() -> Path:
    """The folder of Spark's own jars."""
    home = os.environ.get("SPARK_HOME")
    return Path(home or Path(pyspark.__file__).parent, "jars")
