"""Mistakes in transcripts are told with their line, and differences side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from latecomer.errors import PipelineError
from latecomer.testing import NeedsSpark, run_transcript
from latecomer.testing.oracle import on_oracle
from latecomer.testing.outcome import Outcome
from latecomer.testing.scenario import Step
from latecomer.testing.shapes import Shape
from latecomer.testing.transcripts import Transcript, parse_transcript

GOOD = """\
rule: A payment in a closed minute is late.
watermark: {delay: 0s, every: event}
outputs:
  totals:
    window: {tumbling: 1m}
    aggregates: {paise: sum(paise)}
    allowed_lateness: 1m
    late: update
steps:
  - batch:
      - 14:00:10 @14:00:11 paise=100 -> on_time
      - 14:01:00 @14:01:01 paise=1
      - 14:00:20 @14:01:02 paise=7 -> late_accepted
    panes:
      - 14:00..14:01 ON_TIME paise=100
      - 14:00..14:01 LATE paise=107
    watermark: 14:01
finally:
  results:
    - 14:00..14:01 paise=107
"""


def read(text: str) -> Transcript:
    return parse_transcript(text, Path("late.yaml"))


def changed(old: str, new: str) -> str:
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("rule: A payment", "rulle: A payment", "late.yaml:1: rulle: unknown key"),
        ("rule: A payment", "rulle: A payment", "rule: is missing"),
        ("finally:", "final:", "late.yaml:18: final: unknown key\n    fix: did you mean finally?"),
        ("    panes:", "    pane:", "late.yaml:14: steps[0].pane: unknown key"),
        ("  - batch:", "  - batches:", "late.yaml:10: steps[0]: is not one step"),
        ("14:00:10 @14:00:11 paise=100", "14:00:10 paise=100", "late.yaml:11: steps[0].batch[0]: not a row"),
        ("14:00:10 @14:00:11", "25:00 @14:00:11", "not a time (value: '25:00 @14:00:11"),
        ("paise=1\n", "paise=one\n", "late.yaml:6: outputs.totals.aggregates.paise: sum needs a number"),
        ("paise=7 ->", "paise=7 paise=8 ->", "paise is written twice"),
        ("paise=7 ->", 'note="open ->', "a quote is not closed"),
        ("-> late_accepted", "-> accepted", "late.yaml:13: steps[0].batch[2]: accepted is not a fate"),
        ("-> late_accepted", "-> late_accepted,", "a fate is missing"),
        ("-> late_accepted", "-> totals: late", "late.yaml:13: steps[0].batch[2]: is not one line of text"),
        ("-> late_accepted", "-> other=late", "there is no output other"),
        (
            "-> late_accepted",
            "->",
            "late.yaml:13: steps[0].batch[2]: nothing is written after -> (value: '14:00:20 @14:01:02 paise=7 ->')\n"
            "    fix: say what becomes of the row",
        ),
        ("-> late_accepted", "-> late_accepted;", "a fate is missing"),
        ("ON_TIME paise", "ONTIME paise", "late.yaml:15: steps[0].panes[0]: ONTIME is not a word for a pane"),
        ("ON_TIME paise", "ON_TIME LATE paise", "a pane has one timing"),
        ("14:00..14:01 ON_TIME", "14:00-14:01 ON_TIME", "not a window"),
        ("ON_TIME paise", "ON_TIME sequence=first paise", "a sequence is a whole number"),
        ("watermark: 14:01", "watermark: soon", "late.yaml:17: steps[0].watermark: not a time"),
        ("    - 14:00..14:01 paise=107", "    - 14:00..14:01 LATE paise=107", "not a result"),
        ("window: {tumbling: 1m}", "window: {tumbling: soon}", "late.yaml:5: outputs.totals.window"),
        ("window: {tumbling: 1m}", "windw: {tumbling: 1m}", "did you mean window?"),
        ("watermark: {delay: 0s, every: event}\n", "", "watermark: is missing"),
        ("sum(paise)", "sum(paisee)", "late.yaml:6: outputs.totals.aggregates.paise"),
        (
            "rule: A",
            "event: foo\nrule: A",
            "late.yaml:1: event: is not a mapping (value: 'foo')\n    fix: write what its columns are",
        ),
        ("rule: A", "event: [txn]\nrule: A", "late.yaml:1: event: is not a mapping"),
        ("rule: A", "event: {id: txn}\nrule: A", "late.yaml:1: event.id: the source has no such column"),
        ("rule: A", "event: {idd: paise}\nrule: A", "late.yaml:1: event.idd: unknown key"),
        ("rule: A", "event: {time: [paise]}\nrule: A", "late.yaml:1: event.time: has the wrong kind"),
        ("rule: A", "day: yesterday\nrule: A", "late.yaml:1: day: is not a date"),
        ("rule: A", "columns: {paise: money}\nrule: A", "late.yaml:1: columns.paise: "),
        ("rule: A", "columns: {paise: boolean}\nrule: A", "sum needs a number"),
        ("rule: A", "pipeline: other.yaml\nrule: A", "the pipeline has its own"),
        ("  results:\n", "  results: all\n  late:\n", "is not a list"),
        ("finally:\n", "finally:\n  ledger: [events recieved=3]\n", "the ledger does not count recieved"),
        ("finally:\n", "finally:\n  ledger: [events on_time=all]\n", "the ledger counts in numbers"),
        ("steps:\n", "steps:\n  - heartbeat: noon\n", "late.yaml:10: steps[0].heartbeat: not a time"),
        (
            "LATE paise=107",
            "LATE paises=107",
            "late.yaml:16: steps[0].panes[1]: paises: the output has no such column\n    fix: did you mean paise?",
        ),
        (
            "    - 14:00..14:01 paise=107",
            "    - 14:00..14:01 rupees=107",
            "late.yaml:20: finally.results[0]: rupees: the output has no such column",
        ),
        (
            "finally:\n",
            "finally:\n  late: [14:00:20 @14:01:02 tower=A]\n",
            "late.yaml:19: finally.late[0]: tower: the source has no such column",
        ),
        (
            "finally:\n",
            "finally:\n  ledger: {totals: [paise received=3]}\n",
            "late.yaml:19: finally.ledger.totals[0]: paise: the ledger has no such unit",
        ),
        ("steps:\n", "steps:\n  - watermark: soon\n", "late.yaml:10: steps[0].watermark: not a time"),
        (
            "steps:\n",
            "steps:\n  - watermark: 14:02\n  - watermark: 14:02\n",
            "late.yaml:11: steps[1].watermark: the watermark is at 14:02 and only goes forward",
        ),
        ("steps:\n", "steps:\n  - drain\n  - watermark: 14:02\n", "late.yaml:11: steps[1].watermark: "),
        ("steps:\n", "steps:\n  - drain: now\n", "takes nothing"),
        ("steps:\n", "steps:\n  - batch: 14:00 @14:00\n", "is not a list of rows"),
        ("  - batch:\n", "  - 14:00 @14:00\n  - batch:\n", "is not one step"),
        ("steps:\n", "steps: !!python/object:os.system {}\nother:\n", "is not valid YAML"),
    ],
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, shown: str) -> None:
    with pytest.raises(PipelineError) as raised:
        read(changed(old, new))
    assert shown in str(raised.value)


def test_a_transcript_that_expects_nothing_is_refused() -> None:
    text = GOOD[: GOOD.index("    panes:")].replace(" -> on_time", "").replace(" -> late_accepted", "")
    with pytest.raises(PipelineError, match="nothing is expected"):
        read(text)


def test_what_holds_is_silent() -> None:
    assert run_transcript(read(GOOD)) == []


def test_a_profile_fills_in_what_is_not_written() -> None:
    written = """\
rule: Sessions exactly a gap apart are one.
profile: spark
watermark: {delay: 0s, every: event}
outputs:
  visits: {window: {session: 10m}, aggregates: {clicks: count(*)}}
steps:
  - batch: [14:00 @14:00, 14:10 @14:10]
  - drain:
    panes: [14:00..14:20 ON_TIME clicks=2]
"""
    assert run_transcript(read(written)) == []
    assert run_transcript(read(written.replace("profile: spark\n", "")))
    with pytest.raises(PipelineError, match=r"late.yaml:2: profile: is not one of the choices"):
        read(written.replace("profile: spark", "profile: storm"))


def test_differences_are_shown_side_by_side() -> None:
    (difference,) = run_transcript(
        read(changed("LATE paise=107", "LATE sequence=1 paise=108")), cuts=["as written"]
    )
    assert str(difference) == (
        "late.yaml:14: panes after step 1, a batch (as written)\n"
        "    expected                                  actual\n"
        "    14:00..14:01 ON_TIME paise=100            14:00..14:01 ON_TIME sequence=0 paise=100\n"
        "  ≠ 14:00..14:01 LATE sequence=1 paise=108    14:00..14:01 LATE sequence=1 paise=107"
    )


def test_what_differs_under_several_cuts_is_told_once_and_names_them() -> None:
    (difference,) = run_transcript(
        read(changed("    - 14:00..14:01 paise=107", "    - 14:00..14:01 paise=1"))
    )
    assert str(difference).startswith(
        "late.yaml:19: results in the end (as written; one by one; all in one)\n"
    )


def test_on_spark_the_oracle_still_answers_for_every_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[int] = []

    def instead(shape: Shape, steps: Sequence[Step], *_: object, **__: object) -> Outcome:
        played.append(len(steps))
        return on_oracle(shape, steps)

    monkeypatch.setattr("latecomer.testing.engine.on_engine", instead)
    wrong = read(changed("    - 14:00..14:01 paise=107", "    - 14:00..14:01 paise=1"))
    (difference,) = run_transcript(wrong, on="spark")
    assert difference.runs == ("as written", "one by one", "all in one", "spark, as written")
    assert played == [len(wrong.steps)]


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("paise=100 -> on_time", "paise=100 -> dropped", "fates after step 1"),
        ("late_accepted", "too_late", "fates after step 1"),
        ("watermark: 14:01", "watermark: none", "watermark after step 1"),
        ("    - 14:00..14:01 paise=107", "    - 14:00..14:01 paise=1", "results in the end"),
        ("finally:\n", "finally:\n  late:\n    - 14:00:20 @14:01:02 late\n", "late in the end"),
        ("finally:\n", "finally:\n  ledger: [events received=3 on_time=3]\n", "ledger in the end"),
        ("LATE paise=107", "LATE paise=107 last", "panes after step 1"),
    ],
)
def test_what_does_not_hold_is_found(old: str, new: str, what: str) -> None:
    found = run_transcript(read(changed(old, new)), cuts=["as written"])
    assert [difference.what for difference in found if difference.what.startswith(what)]


def test_a_predicate_beyond_the_oracle_needs_spark() -> None:
    text = changed("    late: update", "    late: update\n    where: abs(paise) > 1")
    with pytest.raises(NeedsSpark, match="abs"):
        run_transcript(read(text))
