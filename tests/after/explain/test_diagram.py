"""Event time against arrival time: what is drawn is what the log says, and stays on paper."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake, pane
from dashboard.dashboard_kit import HOSTILE, SECOND, published_store
from latecomer import PipelineError
from latecomer.after.explain.arrived import MOST_MARKS, arrived, timeline
from latecomer.after.explain.diagram import FATES, HEIGHT, WIDTH, Diagram, Point, drawn
from latecomer.after.explain.picture import picture
from latecomer.after.reading.reader import Reader
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Window

NAME = "{http://www.w3.org/2000/svg}"
MOMENTS = st.integers(0, 10_000 * SECOND)
LATE = [Fate.LATE_ACCEPTED, Fate.SIDE_OUTPUT, Fate.DROPPED]
DIAGRAMS = st.builds(
    lambda ends, windows, marks, lateness, on_time, late: Diagram(
        "x",
        min(ends),
        max(ends) + 1,
        [Window(start, start + 60 * SECOND) for start in windows],
        list(zip(sorted(at for at, _ in marks), sorted(mark for _, mark in marks), strict=True)),
        lateness,
        on_time,
        late,
    ),
    st.tuples(MOMENTS, MOMENTS),
    st.lists(MOMENTS, max_size=5, unique=True).map(sorted),
    st.lists(st.tuples(MOMENTS, MOMENTS), max_size=6),
    st.sampled_from([0, 60 * SECOND]),
    st.lists(st.tuples(MOMENTS, MOMENTS), max_size=6),
    st.lists(st.builds(Point, MOMENTS, MOMENTS, st.sampled_from(LATE)), max_size=6),
)


@given(DIAGRAMS)
def test_everything_stays_on_paper_and_every_late_event_is_drawn(diagram: Diagram) -> None:
    root = ET.fromstring(drawn(diagram))
    for path in root.iter(f"{NAME}path"):
        for x, y in re.findall(r"M(-?[\d.]+),(-?[\d.]+)", path.get("d", "")):
            assert 0 <= float(x) <= WIDTH
            assert 0 <= float(y) <= HEIGHT
    tips = [each for each in root.iter(f"{NAME}path") if each.find(f"{NAME}title") is not None]
    assert sorted(each.get("class", "") for each in tips) == sorted(
        f"mark-{each.fate}" for each in diagram.late
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return published_store(tmp_path_factory.mktemp("diagram") / "told", HOSTILE)


def test_each_event_has_the_fate_that_the_log_gives_it(lake: Lake) -> None:
    found = arrived(Reader(lake.pipeline), "minute_totals")
    late = [(each.event_time - NOON, each.fate) for each in found.diagram.late]
    assert late == [(25 * SECOND, Fate.LATE_ACCEPTED)]
    assert sorted(at - NOON for _, at in found.diagram.on_time) == [
        each * SECOND for each in (5, 15, 65, 125)
    ]
    bounds = {bound - NOON for window in found.diagram.windows for bound in window}
    assert {0, MINUTE, 2 * MINUTE} <= bounds
    assert timeline(lake.store, NOON, NOON + 131 * SECOND) == [
        (NOON + 66 * SECOND, NOON - MINUTE),
        (NOON + 131 * SECOND, NOON + MINUTE + 35 * SECOND),
    ]
    tips = [each.text for each in ET.fromstring(found.svg()).iter(f"{NAME}title")]
    assert tips == [
        "late, accepted: happened 2026-04-25 12:00:25, came 2026-04-25 12:02:10, 1m 10s behind the watermark"
    ]


def test_events_of_sessions_behind_the_watermark_are_not_drawn_as_on_time(tmp_path: Path) -> None:
    text = PIPELINE.replace("window: {tumbling: 1m}", "window: {session: 1m}", 1)
    sessions = published_store(tmp_path / "told", text=text)
    found = arrived(Reader(sessions.pipeline), "minute_totals")
    assert [at - NOON for _, at in found.diagram.unjudged] == [25 * SECOND]
    assert sorted(at - NOON for _, at in found.diagram.on_time) == [
        each * SECOND for each in (5, 15, 65, 125)
    ]
    assert any("depends on their session" in note for note in found.notes)
    root = ET.fromstring(found.svg())
    assert "behind the watermark" in ["".join(each.itertext()) for each in root.iter(f"{NAME}text")]
    shapes = [each for each in root.iter(f"{NAME}path") if each.get("class") == "behind"]
    assert len(shapes) == 2, "the event, and the legend"


@pytest.mark.parametrize(("made", "note"), [("paise + 1", False), ("soundex(merchant)", True)])
def test_a_where_may_name_a_derived_column(tmp_path: Path, made: str, note: bool) -> None:
    """Where only Spark can compute the column, events are drawn as if `where` kept them."""
    more = f"window: {{tumbling: 1m}}\n    columns: {{made: {made}}}\n    where: made is not null"
    derived = published_store(tmp_path / "told", text=PIPELINE.replace("window: {tumbling: 1m}", more, 1))
    found = arrived(Reader(derived.pipeline), "minute_totals")
    assert [each.event_time - NOON for each in found.diagram.late] == [25 * SECOND]
    assert any("`where` needs Spark" in each for each in found.notes) is note


def test_the_line_reaches_the_end_of_the_interval(lake: Lake) -> None:
    """What came last is judged by a watermark whose tick ends after it."""
    assert timeline(lake.store, NOON, NOON + 130 * SECOND) == [
        (NOON + 66 * SECOND, NOON - MINUTE),
        (NOON + 130 * SECOND, NOON + MINUTE + 35 * SECOND),
    ]


def test_an_interval_that_ended_before_has_what_had_come_by_then(lake: Lake) -> None:
    found = arrived(Reader(lake.pipeline), "minute_totals", NOON + 100 * SECOND)
    assert len(found.diagram.on_time) == 3
    assert not found.diagram.late
    assert (found.first, found.last) == (NOON + 6 * SECOND, NOON + 196 * SECOND)


def test_explain_has_the_same_drawing(lake: Lake) -> None:
    from latecomer.after.explain.explain import explain
    from latecomer.model.durations import to_moment

    text = picture(explain(Reader(lake.pipeline), "minute_totals", to_moment(NOON), {"merchant": HOSTILE}))
    root = ET.fromstring(text)
    assert [
        each.get("class") for each in root.iter(f"{NAME}path") if each.find(f"{NAME}title") is not None
    ] == ["mark-late_accepted"]
    assert any(each.get("class") == "watermark" for each in root.iter(f"{NAME}path"))
    assert "<script" not in text


def test_a_notebook_shows_it(lake: Lake) -> None:
    found = lake.pipeline.arrivals("minute_totals")
    html = found._repr_html_()
    assert 'class="watermark"' in html
    assert "<script" not in html
    assert str(found).startswith("minute_totals: what arrived from 2026-04-25T12:00:06Z to")
    with pytest.raises(PipelineError, match="until"):
        lake.pipeline.arrivals("minute_totals", until="yesterday")
    with pytest.raises(PipelineError):
        lake.pipeline.arrivals("nothing")


def test_nothing_has_come_yet(tmp_path: Path) -> None:
    from dashboard.dashboard_kit import new_lake

    new = new_lake(tmp_path / "new")
    new.store.pin()
    found = arrived(Reader(new.pipeline), "minute_totals")
    assert found.notes == ["nothing has arrived yet"]
    assert found.svg().startswith("<svg")


def test_a_window_of_many_events_is_a_small_picture(tmp_path: Path) -> None:
    from dashboard.dashboard_kit import event, new_lake, rows_of
    from latecomer.after.explain.explain import explain
    from latecomer.model.durations import to_moment

    many = new_lake(tmp_path / "many")
    many.store.pin()
    rows = [{**event(5, 6, "amul", 1, 0, 0), "position": nth, "event_id": str(nth)} for nth in range(20_000)]
    many.store.events.append(0, rows_of(many.store.events.schema, rows))
    many.watermarks(0, [{"tick": 0, "at": NOON + MINUTE, "watermark": NOON}])
    many.partials("minute_totals", 0, [pane(0, 0, merchant="amul", paise=1, payments=1)])
    found = explain(Reader(many.pipeline), "minute_totals", to_moment(NOON), {"merchant": "amul"})
    assert len(picture(found)) < 60_000


def test_a_long_timeline_is_thinned_out(tmp_path: Path) -> None:
    from dashboard.dashboard_kit import new_lake

    long = new_lake(tmp_path / "long")
    long.store.pin()
    ticks = range(5 * MOST_MARKS)
    long.watermarks(
        0,
        [
            {"tick": nth, "at": NOON + nth * SECOND, "watermark": NOON + nth * SECOND - MINUTE}
            for nth in ticks
        ],
    )
    found = timeline(long.store, NOON, NOON + 10**12)
    assert len(found) <= MOST_MARKS + 1
    assert found[-1] == (NOON + ticks[-1] * SECOND, NOON + ticks[-1] * SECOND - MINUTE)


def test_fates_can_be_told_apart_by_colour_blind_eyes() -> None:
    colours = [colour for _, colour in FATES.values()]
    assert least_difference(colours) > 20


def least_difference(colours: list[str]) -> float:
    """The smallest distance between two of some colours (CIE 1976), to the eyes of most people and to others'."""
    eyes = {
        "most": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
        "without red": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
        "without green": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
        "without blue": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
    }
    found = []
    for matrix in eyes.values():
        seen = [lab(linear(colour), matrix) for colour in colours]
        found += [
            sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
            for nth, one in enumerate(seen)
            for other in seen[:nth]
        ]
    return min(found)


def linear(colour: str) -> list[float]:
    shares = [int(colour[nth : nth + 2], 16) / 255 for nth in (1, 3, 5)]
    return [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in shares]


def lab(rgb: list[float], matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    r, g, b = (
        min(max(sum(share * each for share, each in zip(row, rgb, strict=True)), 0), 1) for row in matrix
    )
    x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505
    y = 0.2126 * r + 0.7152 * g + 0.0722 * b
    z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089
    fx, fy, fz = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)
