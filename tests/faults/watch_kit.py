"""One run that is looked at from beginning to end, for the tests of power cuts and of copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import pytest
from pyspark.sql import SparkSession

from faults.copy_kit import Film
from faults.faults_kit import PIPELINE, left_without_sqlite, publication_times, write_pipeline
from faults.power_kit import Cut, Disk
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run


@dataclass(frozen=True)
class Watched:
    """What the run's folder was like meanwhile, every moment at which it might have lost power, and what it left."""

    text: str
    cuts: list[Cut]
    film: Film
    whole: dict[str, list[str]]
    times: Mapping[int, datetime]
    """When each batch was published."""


def watch(spark: SparkSession, folders: pytest.TempPathFactory) -> Watched:
    """Run the pipeline. Its source is outside its folder, so that a copy of the folder can be run."""
    source = write_pipeline(folders.mktemp("source")).parent / "in"
    text = PIPELINE.replace("path: in", f"path: {source}").replace("{sqlite: results.db}, ", "")
    file = folders.mktemp("watched") / "pipeline.yaml"
    file.write_text(text, encoding="utf-8")
    disk, film = Disk(file.parent), Film(file.parent)
    with pytest.MonkeyPatch.context() as patched, film.shooting(patched), disk.listening(patched):
        run(load_pipeline(file), drain=True, spark=spark)
    return Watched(text, disk.cuts, film, left_without_sqlite(file), publication_times(load_pipeline(file)))
