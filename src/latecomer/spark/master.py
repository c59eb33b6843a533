"""The Spark master of latecomer's own sessions.

The command line wins, then `LATECOMER_MASTER`, then the settings of Spark itself: by spark-submit, in
PYSPARK_SUBMIT_ARGS or in spark-defaults.conf. Else it is this machine. A session that a program hands in has its own.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

VARIABLE = "LATECOMER_MASTER"
MASTER = "spark.master"
THIS_MACHINE = "local[*]"


def use_master(url: str | None) -> None:
    """Set the master for the sessions of this process, unless it is None."""
    if url is not None:
        os.environ[VARIABLE] = url


def master() -> str:
    """The Spark master that a session of latecomer's own runs on."""
    return os.environ.get(VARIABLE) or spark_settings().get(MASTER) or THIS_MACHINE


def is_local(master: str) -> bool:
    """Whether driver and executors are one process.

    >>> is_local("local[4]"), is_local("local-cluster[2,1,1024]"), is_local("spark://host:7077")
    (True, False, False)
    """
    return master == "local" or master.startswith("local[")


def spark_settings() -> dict[str, str]:
    """The settings with which a Spark program of this process starts."""
    return {**spark_defaults(), **_arguments(os.environ.get("PYSPARK_SUBMIT_ARGS", "")), **_submitted()}


def spark_defaults() -> dict[str, str]:
    """The settings in spark-defaults.conf."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else None)
    return _properties(Path(folder, "spark-defaults.conf")) if folder is not None else {}


def _properties(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    written = (re.split(r"[\s=:]+", line.strip(), maxsplit=1) for line in lines if not line.startswith("#"))
    return {parts[0]: parts[1] for parts in written if len(parts) == 2}


def _arguments(text: str) -> dict[str, str]:
    """The settings in arguments of spark-submit.

    >>> _arguments("--master yarn --conf spark.executor.memory=2g --archives e.tar.gz#e pyspark-shell")
    {'spark.master': 'yarn', 'spark.executor.memory': '2g'}
    """
    try:
        words = iter(shlex.split(text))
    except ValueError:  # Spark reports what is wrong with them
        return {}
    settings: dict[str, str] = {}
    for word in words:
        option, has_value, value = word.partition("=")
        if option in ("--master", "--conf", "-c", "--properties-file"):
            value = value if has_value else next(words, "")
            if option == "--master":
                settings[MASTER] = value
            elif option == "--properties-file":
                settings = {**_properties(Path(value)), **settings}
            else:
                name, _, set_to = value.partition("=")
                settings[name] = set_to
    return settings


def _submitted() -> dict[str, str]:
    """The settings of the spark-submit that started this process, whose JVM is already running."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return {}
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())
