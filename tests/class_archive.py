"""Has the archive of Spark's classes made for the processes that tests start, unless there is one already.

The JVM writes it when this process has ended (latecomer/spark/archive.py).
"""

from __future__ import annotations

from pathlib import Path

from latecomer.spark.archive import archive_options
from latecomer.spark.java import required_java, spark_jars
from latecomer.spark.session import build_session
from latecomer.testing import load_transcript, run_transcript

TRANSCRIPT = Path(__file__).parent / "transcripts" / "late_events_of_one_batch_are_one_pane.yaml"


def main() -> None:
    given = archive_options(required_java().version_text, spark_jars())
    if not any("ArchiveClassesAtExit" in each for each in given):
        return
    run_transcript(load_transcript(TRANSCRIPT), on="spark", spark=build_session("classes"))


if __name__ == "__main__":
    main()
