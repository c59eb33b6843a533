"""What a pipeline answers by itself, and how it shows itself in a notebook."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars
import pyarrow as pa
import pytest

import latecomer
from cli.cli_kit import MINUTE, NOON, PIPELINE, Lake, pane
from dashboard.dashboard_kit import HOSTILE, new_lake, published_store
from frames.frames_kit import write_pipeline
from latecomer import LatecomerError, Pipeline, PipelineError, Reader, Rows, frames
from latecomer.config import load
from latecomer.config.changed_settings import changed
from latecomer.errors import MachineError
from latecomer.store.rebuilds import Rebuild, RebuildRecord
from observe.advise.advise_kit import written as advised_files

BY_MERCHANT = "window: {tumbling: 1m}\n    by: [merchant]\n"
ZONED = PIPELINE.replace(BY_MERCHANT, BY_MERCHANT.replace("1m}", "1m, zone: Asia/Kolkata}"), 1)
KINDS = {"style", "div", "h4", "p", "table", "thead", "tbody", "tr", "th", "td", "span"}
DRAWN = {"svg", "title", "rect", "line", "text", "circle", "path", "polyline", "g", "polygon", "tspan"}
ADVICE = {"h1", "h2", "h3", "code", "b", "br", "i", "details", "summary"}


class Page(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.kinds: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kinds.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [value or "" for _, value in attrs]
        if tag not in ("br",):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text += data


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A store with a story, which no test changes."""
    return published_store(tmp_path_factory.mktemp("told"))


@pytest.fixture
def zoned(tmp_path: Path) -> Lake:
    """Windows by the clock of Kolkata, with sums that no float holds."""
    lake = new_lake(tmp_path / "zoned", ZONED)
    lake.store.pin()
    rows = [pane(0, 0, merchant="a", paise=Decimal(2**70), payments=2**60 + 1), pane(1, 0, merchant=None)]
    lake.panes("minute_totals", 0, rows)
    return lake


# Rows


def test_results_are_those_of_the_reader(lake: Lake) -> None:
    found = lake.pipeline.results("minute_totals")
    assert isinstance(found, Rows)
    assert found.arrow() == Reader(lake.pipeline).results("minute_totals")
    assert len(found) == found.arrow().num_rows == 2
    assert isinstance(Reader(lake.pipeline).results("minute_totals"), pa.Table)


def test_a_pipeline_is_that_of_its_file_and_stays_what_it_is_in_another_process(lake: Lake) -> None:
    in_file = load.load_pipeline(lake.file)
    assert dict(lake.pipeline) == dict(in_file)
    assert lake.pipeline.model_fields_set == in_file.model_fields_set
    assert pickle.loads(pickle.dumps(lake.pipeline)) == lake.pipeline
    assert all(isinstance(view, Pipeline) for view in lake.pipeline.views.values())


def test_a_pipeline_that_is_handed_back_answers_too(lake: Lake, tmp_path: Path) -> None:
    assert isinstance(changed(lake.pipeline, {"watermark.delay": "2m"}), Pipeline)  # that of a replay
    assert isinstance(latecomer.into(write_pipeline(tmp_path / "taps")).pipeline, Pipeline)


def test_frames_for_a_pipeline_and_for_its_file_go_to_one_receiver(lake: Lake) -> None:
    spark: Any = SimpleNamespace(sparkContext=object())
    receiver = frames._receiver(lake.pipeline, None, spark)
    frames._OPEN[lake.pipeline.store_path] = receiver
    try:
        assert frames._receiver(frames._loaded("append", lake.file)[0], lake.file, spark) is receiver
    finally:
        frames._OPEN.clear()


ANSWERS: dict[str, tuple[Callable[[Pipeline], Any], Callable[[Reader], pa.Table]]] = {
    "open": (
        lambda p: p.results("minute_totals", include_open=True),
        lambda r: r.results("minute_totals", include_open=True),
    ),
    "key": (
        lambda p: p.results("minute_totals", key={"merchant": "amul"}, valid_at="2026-04-25T12:00:30Z"),
        lambda r: r.results(
            "minute_totals", key={"merchant": "amul"}, valid_at=datetime(2026, 4, 25, 12, 0, 30, tzinfo=UTC)
        ),
    ),
    "as of": (
        lambda p: p.results("minute_totals", as_of="2026-04-25T12:02:30Z"),
        lambda r: r.results("minute_totals", as_of=datetime(2026, 4, 25, 12, 2, 30, tzinfo=UTC)),
    ),
    "panes": (lambda p: p.panes("minute_totals"), lambda r: r.panes("minute_totals")),
    "panes of a window": (
        lambda p: p.panes("minute_totals", window="2026-04-25T12:00Z"),
        lambda r: r.panes("minute_totals", window=datetime(2026, 4, 25, 12, tzinfo=UTC)),
    ),
    "late": (lambda p: p.late("minute_totals"), lambda r: r.late("minute_totals")),
    "dead letters": (lambda p: p.dead_letters(), lambda r: r.dead_letters()),
    "watermarks": (lambda p: p.watermarks(), lambda r: r.watermarks()),
    "totals": (lambda p: p.ledger_totals(), lambda r: r.ledger_totals()),
    "lines": (lambda p: p.ledger_lines(), lambda r: r.ledger()),
}


@pytest.mark.parametrize("asked", ANSWERS)
def test_each_answer_is_the_readers(lake: Lake, asked: str) -> None:
    by_pipeline, by_reader = ANSWERS[asked]
    found, wanted = by_pipeline(lake.pipeline), by_reader(Reader(lake.pipeline))
    assert found.arrow().equals(wanted)
    assert wanted.num_rows > 0


def test_sinks_and_an_explanation(lake: Lake) -> None:
    assert lake.pipeline.sink_status().arrow()["sink"].to_pylist() == ["sqlite"]
    found = lake.pipeline.explain("minute_totals", "2026-04-25T12:00Z", {"merchant": "amul"})
    assert (
        found.document()
        == latecomer.explain(
            lake.pipeline, "minute_totals", "2026-04-25T12:00Z", {"merchant": "amul"}
        ).document()
    )


def test_text_is_a_time_of_the_outputs_zone(zoned: Lake) -> None:
    found = zoned.pipeline.results("minute_totals", valid_at="2026-04-25T17:30:30")
    assert found.arrow()["window_start"].to_pylist() == [datetime(2026, 4, 25, 12, tzinfo=UTC)]


@pytest.mark.parametrize(
    "call",
    [
        lambda p: p.results("nothing"),
        lambda p: p.results(7),
        lambda p: p.results("minute_totals", as_of="soon"),
        lambda p: p.results("minute_totals", key={"merchant": 7}),
        lambda p: p.panes("minute_totals", window="soon"),
        lambda p: p.panes("nothing"),
        lambda p: p.late("nothing"),
        lambda p: p.explain("minute_totals", "soon"),
        lambda p: p.results("minute_totals").head("many"),
        lambda p: p.results("minute_totals").spark("local"),
    ],
)
def test_a_wrong_question_is_told_in_one_sentence(lake: Lake, call: Callable[[Pipeline], object]) -> None:
    with pytest.raises(PipelineError) as refused:
        call(lake.pipeline)
    assert "fix: " in str(refused.value)


def test_polars_has_every_digit_and_the_outputs_clock(zoned: Lake) -> None:
    frame = zoned.pipeline.results("minute_totals").polars()
    assert frame["paise"].to_list() == [Decimal(2**70), None]
    assert frame["payments"].to_list() == [2**60 + 1, None]
    assert frame.schema["window_start"] == polars.Datetime("us", "Asia/Kolkata")
    assert frame["window_start"][0] == datetime(2026, 4, 25, 12, tzinfo=UTC)
    assert frame["window_start"][0].isoformat() == "2026-04-25T17:30:00+05:30"


def test_whatever_reads_arrow_reads_rows(zoned: Lake) -> None:
    rows = zoned.pipeline.results("minute_totals")
    assert polars.DataFrame(rows).height == pa.table(rows).num_rows == 2


def test_pandas_has_every_digit_and_the_outputs_clock(zoned: Lake) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = zoned.pipeline.results("minute_totals").pandas()
    assert frame["paise"].tolist()[0] == Decimal(2**70)
    assert frame["payments"].tolist()[0] == 2**60 + 1
    assert frame["payments"].isna().tolist() == [False, True]
    assert str(frame["window_start"].dtype) == "timestamp[us, tz=Asia/Kolkata][pyarrow]"
    assert frame["window_start"][0].isoformat() == "2026-04-25T17:30:00+05:30"


@pytest.mark.parametrize(("package", "named"), [("pandas", "pandas"), ("polars", "Polars")])
def test_a_package_that_is_missing_is_named_with_the_fix(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, package: str, named: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    rows = lake.pipeline.results("minute_totals")
    with pytest.raises(MachineError) as refused:
        getattr(rows, package)()
    assert str(refused.value).startswith(f"{named} cannot be imported (")
    assert f"pip install {package}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_nothing_heavy_is_needed_for_a_pipeline_and_no_spark_for_its_answers(lake: Lake) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = None\n"
        "from latecomer import load_pipeline\n"
        "pipeline = load_pipeline(sys.argv[1])\n"
        "print(sorted({'pyarrow', 'deltalake'} & set(sys.modules)))\n"
        "print(len(pipeline.results('minute_totals')._repr_html_()) > 500, len(pipeline.ledger_totals()))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, str(lake.file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert said.stdout == "[]\nTrue 6\n", said.stderr


def test_rows_on_spark(zoned: Lake, spark: Any) -> None:
    frame = zoned.pipeline.results("minute_totals").spark(spark)
    assert frame.schema["paise"].dataType.simpleString() == "decimal(38,0)"
    found = frame.selectExpr("paise", "payments", "unix_micros(window_start) as at", "merchant").collect()
    assert [tuple(row) for row in found] == [
        (Decimal(2**70), 2**60 + 1, NOON, "a"),
        (None, None, NOON + MINUTE, None),
    ]


# In a notebook


def shown(each: Any, also: set[str] = frozenset()) -> Page:  # type: ignore[assignment]
    """What an object shows of itself, as a browser reads it: from a short list of elements, with nothing to run or to
    fetch."""
    html = each._repr_html_()
    page = Page(html)
    assert page.open == []
    assert page.kinds <= KINDS | also, page.kinds - KINDS - also
    assert not {name for name in page.attributes if name.startswith("on") or name in ("src", "href")}
    assert "script" not in page.kinds
    assert "url(" not in html
    assert "@import" not in html
    return page


def test_results_show_every_digit_in_the_outputs_zone(zoned: Lake) -> None:
    page = shown(zoned.pipeline.results("minute_totals"))
    for each in ("minute_totals: results", str(2**70), str(2**60 + 1), "2026-04-25T17:30:00+05:30", "null"):
        assert each in page.text
    assert "times in Asia/Kolkata" in page.text


def test_decimals_show_all_their_digits() -> None:
    rows = Rows(
        pa.table({"fee": pa.array([Decimal("600.00"), Decimal("0.10")], pa.decimal128(38, 2))}), "fees"
    )
    assert "600.00" in shown(rows).text
    assert "0.10" in shown(rows).text


def test_a_long_table_shows_its_beginning_and_a_long_value_too() -> None:
    rows = Rows(pa.table({"n": list(range(1000)), "text": ["x" * 5000] * 1000}), "many")
    page = shown(rows)
    assert "40 of 1,000 rows are shown" in page.text
    assert len(page.text) < 60_000
    assert len(rows.head(3)) == 3


def test_nothing_says_why(tmp_path: Path) -> None:
    lake = new_lake(tmp_path / "new")
    lake.store.pin()
    assert "include_open=True" in shown(lake.pipeline.results("minute_totals")).text
    assert "no batch is complete yet" in shown(lake.pipeline.ledger_totals()).text


def test_the_ledger_says_whether_it_balances(tmp_path: Path) -> None:
    lake = published_store(tmp_path / "own")
    assert "received is the sum of all fates" in shown(lake.pipeline.ledger_totals()).text
    lake.ledger(3, [{"output": "by_shop", "received": Decimal(5), "on_time": Decimal(3)}])
    page = shown(lake.pipeline.ledger_totals())
    assert "by_shop, events: received and accounted for differ by 2" in page.text
    assert "received is the sum" not in page.text
    assert "batch 3, by_shop, events" in shown(lake.pipeline.ledger_lines()).text


def test_a_ledger_of_large_amounts_balances(tmp_path: Path) -> None:
    lake = published_store(tmp_path / "own")
    amount = Decimal("12345678901234567890123456.123456")
    lake.ledger(3, [{"output": "by_shop", "unit": "paise", "received": amount, "on_time": amount}])
    assert "received and accounted for differ" not in shown(lake.pipeline.ledger_lines()).text


def hostile_objects(folder: Path) -> dict[str, Any]:
    lake = published_store(folder / "hostile", HOSTILE)
    pipeline = lake.pipeline
    largest = {
        "window_start": "2026-04-25T12:00:00Z",
        "key": {"merchant": HOSTILE},
        "change": HOSTILE,
        "before": {"paise": 1},
        "after": {"paise": HOSTILE},
    }
    return {
        "results": pipeline.results("minute_totals", key={"merchant": HOSTILE}),
        "panes": pipeline.panes("minute_totals"),
        "late": pipeline.late("minute_totals"),
        "dead letters": pipeline.dead_letters(),
        "column": Rows(pa.table({HOSTILE: [HOSTILE]}), HOSTILE, "UTC", HOSTILE, [HOSTILE], [HOSTILE]),
        "nothing": Rows(pa.table({"a": pa.array([], pa.int64())}), "a", nothing=HOSTILE),
        "explanation": pipeline.explain("minute_totals", "2026-04-25T12:00Z", {"merchant": HOSTILE}),
        "plan": planned(folder, sums={HOSTILE: (1, 2)}, largest=(largest,)),
    }


def test_no_text_of_the_data_is_markup(tmp_path: Path) -> None:
    """`shown` refuses every element and attribute that is not on its list."""
    for kind, found in hostile_objects(tmp_path).items():
        page = shown(found, DRAWN if kind == "explanation" else set())
        text = json.dumps(HOSTILE)[1:-1] if kind == "dead letters" else HOSTILE
        assert text in page.text, kind
        assert HOSTILE not in page.values, kind


def test_what_would_turn_text_around_is_written_out() -> None:
    page = shown(Rows(pa.table({"a": ["\u202egnp.exe\x1b[31m\u2028"]}), "a"))
    assert "\\u202egnp.exe\\x1b[31m\\u2028" in page.text


def planned(folder: Path, **more: Any) -> Rebuild:
    counts = {
        "windows": 1,
        "keys": 2,
        "new": 1,
        "changed": 1,
        "withdrawn": 0,
        "files": 3,
        "rows": 9,
        "bytes": 12_345,
    }
    record = RebuildRecord("minute_totals", NOON, NOON + MINUTE, 7, NOON, NOON, NOON, None, {}, counts)
    place = folder / "lake" / "outputs" / "minute_totals" / "rebuilds" / "abc"
    place.mkdir(parents=True, exist_ok=True)
    return Rebuild(place, replace(record, **more))


def test_a_plan_shows_what_it_would_change(tmp_path: Path) -> None:
    plan = planned(
        tmp_path,
        sums={"paise": ("1180591620717411303424", "1180591620717411303425")},
        largest=(
            {
                "window_start": "2026-04-25T12:00:00Z",
                "key": {"merchant": None},
                "change": "changed",
                "before": {"paise": 5},
                "after": {"paise": 6},
            },
        ),
    )
    page = shown(plan)
    for each in (
        "plan abc: minute_totals, windows that start from 2026-04-25T12:00:00Z until 2026-04-25T12:01:00Z",
        "3 files, 9 rows, 12.3 kB",
        "1 window and 2 keys change: 1 new, 1 changed, 0 withdrawn",
        "1180591620717411303425",
        "+1",
        "5 → 6",
        "nothing is published yet",
    ):
        assert each in page.text
        assert each in str(plan)
    plan.accept(8)
    assert "published as batch 8" in shown(plan).text


def test_a_plan_has_the_clock_of_its_output(zoned: Lake) -> None:
    root = zoned.store.root
    page = shown(planned(root.parent))
    assert "from 2026-04-25T17:30:00+05:30 until" in page.text


def test_an_explanation_shows_what_stands_why_and_a_picture(lake: Lake) -> None:
    page = shown(lake.pipeline.explain("minute_totals", "2026-04-25T12:00Z", {"merchant": "amul"}), DRAWN)
    for each in (
        "merchant=amul",
        "stands at paise 27, payments 3",
        "LATE",
        "27 (+7)",
        "they cannot be reconciled",
    ):
        assert each in page.text
    assert "svg" in page.kinds


def test_what_is_printed_is_what_a_reader_wants_to_see(lake: Lake) -> None:
    """Rows and an explanation as text, without a notebook."""
    rows = lake.pipeline.results("minute_totals")
    title, heads, *lines = str(rows).splitlines()
    assert title == rows.title
    assert heads.split()[:2] == ["window_start", "window_end"]
    assert len(lines) == len(rows)
    long = Rows(pa.table({"n": list(range(30)), "text": ["\x1b[2J"] * 30}), "thirty")
    assert str(long).splitlines()[-1] == "20 of 30 rows are shown"
    assert "\x1b" not in str(long)
    assert str(Rows(pa.table({"n": []}), "none", nothing="nothing was asked")) == "none\nnothing was asked"
    found = lake.pipeline.explain("minute_totals", "2026-04-25T12:00Z", {"merchant": "amul"})
    text = str(found).splitlines()
    assert text[0].startswith("minute_totals · 2026-")
    assert text[1].startswith("stands at ")
    assert text[2].split()[:2] == ["timing", "op"]
    assert "Explanation(" not in str(found)


def test_nothing_that_is_printed_is_an_order_to_a_terminal(tmp_path: Path) -> None:
    for kind, found in hostile_objects(tmp_path).items():
        if kind != "plan":
            assert all(each.isprintable() for each in str(found).replace("\n", "")), kind


def test_an_explanation_has_the_clock_of_its_output(tmp_path: Path) -> None:
    lake = published_store(tmp_path / "told")
    zoned = new_lake(tmp_path / "told", ZONED)
    (lake.store.root / "pipeline.json").unlink()
    zoned.store.pin()
    page = shown(zoned.pipeline.explain("minute_totals", "2026-04-25T12:00Z", {"merchant": "amul"}), DRAWN)
    assert "2026-04-25T17:30:00+05:30" in page.text
    assert "2026-04-25T12:00:00" not in page.text


def test_advice_shows_itself(tmp_path: Path) -> None:
    file = advised_files(tmp_path, "parquet")
    advice = latecomer.advise(str(file), event_time="event_time")
    assert "Two delays" in shown(advice, DRAWN | ADVICE).text


def test_a_store_that_is_missing_is_told(tmp_path: Path) -> None:
    with pytest.raises(LatecomerError, match="run the pipeline first"):
        new_lake(tmp_path / "none").pipeline.results("minute_totals")
