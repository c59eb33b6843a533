"""A verb that is written wrongly says how it is written."""

from __future__ import annotations

import pytest

from cli.cli_kit import Cli, Lake


@pytest.mark.parametrize(
    ("arguments", "said", "fix"),
    [
        (["results"], "Missing argument 'FILE'.", "latecomer results [OPTIONS] FILE OUTPUT"),
        (
            ["rebuild", "list", "p.yaml"],
            "Missing argument 'OUTPUT'.",
            "latecomer rebuild list [OPTIONS] FILE OUTPUT",
        ),
        (["results", "--fro", "x"], "No such option: --fro", "latecomer results [OPTIONS] FILE OUTPUT"),
        (["reslts"], "No such command 'reslts'.", "latecomer [OPTIONS] COMMAND [ARGS]..."),
        (["rebuild"], "no command is named", "latecomer rebuild [OPTIONS] COMMAND [ARGS]..."),
    ],
)
def test_a_verb_that_is_written_wrongly_says_how_it_is_written(
    cli: Cli, arguments: list[str], said: str, fix: str
) -> None:
    ended = cli(*arguments)
    assert ended.status == 2
    assert said in ended.err
    assert f"fix: write {fix}; --help has more" in ended.err


def test_a_wrong_value_says_what_is_wrong_with_it(cli: Cli, lake: Lake) -> None:
    ended = cli("results", lake.file, "minute_totals", "--format", "xml")
    assert "'xml' is not one of" in ended.err
    assert "fix: correct it; latecomer results --help has more" in ended.err


@pytest.mark.parametrize("doing", ["cli.run.load", "engine.running.run"])
def test_a_run_that_is_stopped_while_it_starts_says_so(
    cli: Cli, lake: Lake, monkeypatch: pytest.MonkeyPatch, doing: str
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"latecomer.{doing}", interrupted)
    ended = cli("run", lake.file)
    assert ended.status == 130
    assert "stopped before the first batch; the store is consistent\n" in ended.err
