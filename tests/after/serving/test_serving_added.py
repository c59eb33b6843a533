"""An aggregate that came to an output later: where it is not known of a window, a correction does not make it up."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from after.serving.correct_kit import PIPELINE, late, publish, reader, served
from cli.cli_kit import MINUTE, NOON, Lake
from latecomer.after.reading.choices import Grain
from latecomer.after.serving.correcting import correct
from latecomer.after.serving.served import by_grain, corrections, serving
from latecomer.after.serving.views import keep_served
from latecomer.sink.keeper import SinkKeeper
from latecomer.store.definitions import definition_of
from latecomer.store.rebuilds import RebuildRecord, Rebuilds
from postgres_kit import Postgres

MANY = PIPELINE[PIPELINE.index("      fees: sum(fee)") : PIPELINE.index("  everything:")]
MORE = """\
      least: min(paise)
      filled: count(fee)
      fees: sum(fee)
      mean: avg(paise)
      begins: first(payer)
"""
NUMBERS = count()
VARIABLE = "LATECOMER_TEST_DATABASE"


def written(file: Path, more: str, sink: str = "") -> Lake:
    text = PIPELINE.replace(MANY, more).replace("  totals:\n", f"  totals:\n{sink}", 1)
    file.write_text(text, encoding="utf-8")
    return Lake(file)


def redefined(lake: Lake, batch: int, since: int) -> None:
    """What `rebuild apply` leaves behind of another definition."""
    definition = json.loads(json.dumps(definition_of(lake.pipeline.outputs["totals"])))
    rebuilds = Rebuilds(lake.pipeline.store_path, "totals")
    record = RebuildRecord(
        "totals", since, since + MINUTE, batch - 1, NOON + 5 * MINUTE, 0, 0, definition, {}
    )
    rebuilds.keep(rebuilds.draft(), record).accept(batch)
    lake.store.pin()


def brought_over(file: Path, sink: str = "", bring_up: Any = lambda lake, batch: None) -> Lake:
    """Minute 0 stays as it was, minute 1 is brought over. Minutes 3 and 4 have late events alone; of minute 3,
    some came before the aggregates did."""
    lake = written(file, "", sink)
    lake.store.pin()
    sold = {"paise": 5, "fee": Decimal("1.25"), "payer": "p"}
    publish(lake, "totals", 0, [late(0, "a", **sold), late(1, "a", **sold)])
    lake.late("totals", 1, [late(minute, "a", **{**sold, "paise": 7}) for minute in (0, 1, 3)])
    correct(reader(lake), "totals")
    bring_up(lake, 1)
    lake = written(file, MORE, sink)
    redefined(lake, 2, NOON + MINUTE)
    publish(lake, "totals", 2, [late(1, "a", **sold), late(1, "a", **{**sold, "paise": 7})], "CORRECTION")
    last = [
        late(minute, "a", paise=2, payer="late", event_time=NOON + minute * MINUTE + 2)
        for minute in (0, 1, 3, 4)
    ]
    lake.late("totals", 3, last)
    correct(reader(lake), "totals")
    bring_up(lake, 3)
    return lake


COLUMNS = ("paise", "payments", "least", "filled", "fees")
EXPECTED = {
    (0, "a"): (14, 3, None, None, None),
    (1, "a"): (14, 3, 2, 2, Decimal("2.50")),
    (3, "a"): (9, 2, None, None, None),
    (4, "a"): (2, 1, 2, 0, None),
}


def test_what_is_not_known_stays_unknown(tmp_path: Path) -> None:
    lake = brought_over(tmp_path / "pipeline.yaml")
    rows = serving(reader(lake), "totals").to_pylist()
    assert served(rows, *COLUMNS) == EXPECTED
    assert served(rows, "mean", "begins") == {
        (0, "a"): (None, None),
        (1, "a"): (14 / 3, "p"),
        (3, "a"): (None, None),
        (4, "a"): (2, "late"),
    }
    hours = by_grain(reader(lake), "totals", corrections(reader(lake), "totals"), Grain.HOUR).to_pylist()
    assert [(row["paise"], row["least"], row["filled"]) for row in hours] == [(22, None, None)]


@pytest.mark.long
def test_the_view_in_postgres_says_the_same(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, postgres.url_with_password)
    schema = f"added {next(NUMBERS)}"
    sink = (
        f"    sinks: [{{postgres: {{target: '${{env:{VARIABLE}}}', schema: '{schema}', serving: true}}}}]\n"
    )

    def bring_up(lake: Lake, batch: int) -> None:
        keeper = SinkKeeper(lake.store)
        keeper.start(batch)
        keeper.finish()
        keeper.close()
        keep_served(reader(lake), "totals")

    brought_over(tmp_path / "pipeline.yaml", sink, bring_up)
    assert served(postgres.ask(f'select * from "{schema}".totals_serving'), *COLUMNS) == EXPECTED
