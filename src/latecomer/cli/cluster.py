"""`latecomer cluster pack`: what executors need, in one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from latecomer.cli.verbs import group
from latecomer.model.counting import counted

cluster = group("cluster")


@cluster.command()
def pack(
    out: Annotated[Path, typer.Argument(metavar="[OUT]", help="The archive to write.")] = Path(
        "latecomer-environment.tar.gz"
    ),
    more: Annotated[
        list[str],
        typer.Option(
            "--with",
            help="A package of your own that tasks import, by its name in pip; again for another.",
            metavar="PACKAGE",
        ),
    ] = [],  # noqa: B006 - typer wants it
) -> None:
    """Write an archive of this Python with latecomer and all that it needs, for spark.archives.

    Executors then need no Python of their own, only an operating system like this one's.
    """
    from latecomer.config.sizes import size_in_words
    from latecomer.spark.environment import pack as packed

    archive = packed(out, more)
    size = size_in_words(archive.file.stat().st_size)
    print(
        f"{archive.file}: {size}, {counted(len(archive.packages), 'package')}. Give Spark, in spark-defaults.conf,",
        file=sys.stderr,
    )
    for name, value in archive.options.items():
        print(f"{name} {value}")
    archives, python = archive.options["spark.archives"], archive.options["spark.pyspark.python"]
    print(
        f"or to spark-submit --archives {archives} --conf spark.pyspark.python={python}, or for latecomer itself\n"
        f'  export PYSPARK_SUBMIT_ARGS="--archives {archives} pyspark-shell" PYSPARK_PYTHON={python}\n'
        "then check it with: latecomer doctor --cluster --master URL",
        file=sys.stderr,
    )
