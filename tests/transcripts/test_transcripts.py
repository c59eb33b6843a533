"""Every rule, executed: the transcripts beside this file, through the oracle under three batch cuts.

docs/semantics.md names the rules. Those in `spark/` are cases of Spark's own tests, which docs/sparks-tests.md lists.
tests/transcripts/test_transcripts_on_spark.py runs the same files through the engine.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latecomer.testing import load_transcript, run_transcript

HERE = Path(__file__).parent
RULES, OF_SPARK = sorted(HERE.glob("*.yaml")), sorted(HERE.glob("spark/*.yaml"))
DOCS = HERE.parent.parent / "docs"


@pytest.mark.parametrize("file", [*RULES, *OF_SPARK], ids=lambda file: file.stem)
def test_the_oracle_says_so(file: Path) -> None:
    differences = run_transcript(load_transcript(file))
    assert not differences, "\n\n".join(map(str, differences))


def test_every_rule_is_named_and_every_name_is_there() -> None:
    assert _named("semantics.md", "") == {file.stem for file in RULES}


def test_every_case_of_sparks_is_listed_with_what_becomes_of_it_here() -> None:
    suites = (DOCS / "sparks-tests.md").read_text("utf-8").split("\n## ")[2:]
    answer = re.compile(
        r"\[(the same|differs)\]\(\.\./tests/transcripts/spark/\w+\.yaml\)|differs: |not applicable: "
    )
    cases = [
        case for suite in suites for case in re.findall(r"^\| (.+?) \| (.+) \|$", suite, re.MULTILINE)[2:]
    ]
    assert [case for case, here in cases if not answer.match(here)] == []
    assert (len(suites), len({case for case, _ in cases}), len(cases)) == (4, 73, 73)
    assert _named("sparks-tests.md", "spark/") == {file.stem for file in OF_SPARK}


def _named(page: str, folder: str) -> set[str]:
    return set(
        re.findall(rf"\]\(\.\./tests/transcripts/{folder}(\w+)\.yaml\)", (DOCS / page).read_text("utf-8"))
    )
