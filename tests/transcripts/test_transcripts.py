"""Every rule, executed: the transcripts beside this file, through the oracle under three batch cuts.

docs/semantics.md names the rules; tests/transcripts/test_transcripts_on_spark.py runs the same files
through the engine.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from latecomer.testing import load_transcript, run_transcript

HERE = Path(__file__).parent
TRANSCRIPTS = sorted(HERE.glob("*.yaml"))
SEMANTICS = HERE.parent.parent / "docs" / "semantics.md"


@pytest.mark.parametrize("file", TRANSCRIPTS, ids=lambda file: file.stem)
def test_the_oracle_says_so(file: Path) -> None:
    differences = run_transcript(load_transcript(file))
    assert not differences, "\n\n".join(map(str, differences))


def test_every_rule_is_named_and_every_name_is_there() -> None:
    named = set(re.findall(r"\]\(\.\./tests/transcripts/(\w+)\.yaml\)", SEMANTICS.read_text("utf-8")))
    assert named == {file.stem for file in TRANSCRIPTS}
