"""A silent partition that holds the watermark is named, with since when and how many wait."""

from __future__ import annotations

from latecomer.model.durations import parse_duration
from latecomer.model.silent_partitions import PATIENCE, SilentPartition, holding_in_words
from latecomer.model.strategies import Bounded, TickSummary
from latecomer.model.timeline import Timeline

SECOND, MINUTE = 1_000_000, 60_000_000
NOON = 1_794_139_200_000_000  # 2026-11-08T12:00:00Z


def summary(minute: int, partition: str) -> TickSummary:
    at = NOON + minute * MINUTE
    return TickSummary(at // SECOND, at, partition, 1, at)


def timeline(**options: object) -> Timeline:
    return Timeline(Bounded(delay="0s", **options))  # type: ignore[arg-type]


def test_one_row_of_a_new_partition_is_named_once_it_has_been_silent() -> None:
    line = timeline()
    line.extend([summary(0, "berlin"), summary(0, "mumbai"), summary(0, "mumbay")])
    for minute in range(1, 5):
        line.extend([summary(minute, "berlin"), summary(minute, "mumbai")])
        assert line.holding() == []  # a pause is no silence yet
    line.extend([summary(20, "berlin"), summary(20, "mumbai")])
    heard = NOON + SECOND  # the end of its tick
    (held,) = line.holding()
    assert held == SilentPartition("mumbay", heard, 20 * MINUTE - SECOND, NOON, 2, PATIENCE)


def test_a_partition_that_speaks_holds_nobody_for_ever_however_slow_it_is() -> None:
    line = timeline()
    for minute in (0, 20, 40):
        slow = TickSummary((NOON + minute * MINUTE) // SECOND, NOON + minute * MINUTE, "slow", 1, NOON)
        line.extend([summary(minute, "fast"), slow])
    assert line.holding() == []


def test_where_all_are_silent_none_holds_the_others() -> None:
    line = timeline()
    line.extend([summary(0, "a"), summary(0, "b")])
    line.heartbeat(NOON + 60 * MINUTE)
    assert line.holding() == []


def test_one_that_is_silent_and_further_than_the_others_holds_nobody() -> None:
    line = timeline()
    ahead = TickSummary(NOON // SECOND, NOON, "ahead", 1, NOON + 600 * MINUTE)
    line.extend([summary(0, "a"), ahead])
    line.extend([summary(20, "a")])
    assert line.holding() == []


def test_with_idle_after_nobody_holds_it_for_ever() -> None:
    line = timeline(idle_after="2h")
    line.extend([summary(0, "a"), summary(0, "b")])
    line.extend([summary(60, "a")])
    assert line.holding() == []


def test_silence_counts_only_beyond_a_partitions_own_delay() -> None:
    line = Timeline(Bounded(delay="1h"))
    line.extend([summary(0, "a"), summary(0, "b")])
    line.extend([summary(30, "a")])
    assert line.holding() == []
    line.extend([summary(90, "a")])
    (held,) = line.holding()
    assert held.suggested == parse_duration("1h")


def test_the_warning_says_who_since_when_how_many_wait_and_what_to_set() -> None:
    words = holding_in_words([SilentPartition("mumbay", NOON, 20 * MINUTE, NOON, 2, PATIENCE)])
    assert words == (
        "partition 'mumbay' holds the watermark: silent for 20m, since 2026-11-08T12:00:00Z of arrival time; it stays "
        "at 2026-11-08T12:00:00Z, 2 partitions wait, and no window closes beyond it. Set watermark.idle_after: 5m, "
        "and whoever is silent for so long holds nobody back"
    )


def test_a_flood_of_names_is_one_warning_and_no_name_writes_to_the_terminal() -> None:
    names = ["\x1b[31mred\n", "x" * 1_000, "", *map(str, range(100))]
    words = holding_in_words([SilentPartition(name, NOON, MINUTE, NOON, 1, PATIENCE) for name in names])
    assert "partition '\\x1b[31mred\\n' holds" in words
    assert "and 100 more" in words
    assert "the partition without a name (its column is empty)" in words
    assert len(words) < 700
    assert "\x1b" not in words
