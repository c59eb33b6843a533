"""The command line: `latecomer VERB FILE`. The module of a verb is loaded when it is called (`verbs.py`)."""

from __future__ import annotations

import errno
import os
import re
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from latecomer.cli.options import HELP, WrongUsage
from latecomer.cli.reporting import is_wanted, reporting
from latecomer.cli.terminal import escape_formulas, shielded_terminal
from latecomer.cli.verbs import Verbs
from latecomer.errors import LatecomerError, PipelineError
from latecomer.errors.system import refusal_of

__all__ = ["app", "main"]

USAGE, FAILED, UNEXPECTED, INTERRUPTED = 2, 1, 70, 130

app = typer.Typer(
    name="latecomer",
    cls=Verbs,
    rich_markup_mode=None,  # rich takes longer to load than all the rest; only the help of a verb uses it
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=HELP,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"latecomer {version('latecomer')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def latecomer(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show no progress, only warnings, errors and the answer.")
    ] = False,
    formulas: Annotated[
        bool,
        typer.Option(
            "--escape-formulas",
            help="Have CSV cells that a spreadsheet would compute (=, +, -, @) begin with an apostrophe.",
        ),
    ] = False,
) -> None:
    """The late-data layer for Apache Spark: it records what happened to every late event, and why every number
    changed."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        return
    from latecomer.model.zoned import use_zone

    use_zone("UTC")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb and exit: 0 done, 1 failed, 2 wrong usage or pipeline file, 70 a bug in latecomer."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given or os.environ.get("LATECOMER_DEBUG") == "1"
    quiet = "--quiet" in given or "-q" in given
    escape_formulas(FORMULAS in given)
    with shielded_terminal(), reporting(quiet, is_wanted(given)) as display:
        display.show("starting")
        status = _status([argument for argument in given if argument not in _EVERYWHERE], debug)
    sys.exit(status)


FORMULAS = "--escape-formulas"
_EVERYWHERE = ("--debug", "--quiet", "-q", FORMULAS)
"""Options that may come before or after the verb."""


_WRONG_PATH = (errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ELOOP)


def _status(arguments: list[str], debug: bool) -> int:
    try:
        for argument in arguments:
            if "\0" in argument:
                raise WrongUsage(repr(argument), True, "holds a NUL character", "leave it out")
        status = app(arguments or ["--help"], prog_name="latecomer", standalone_mode=False)
        sys.stdout.flush()
    except LatecomerError as error:
        status = USAGE if isinstance(error, PipelineError | WrongUsage) else FAILED
        return _reported(error, f"error: {error}", status, debug)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe; without this, Python would report an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        refused = refusal_of(error)
        fix = refused.fix if refused else "correct the path" if error.errno in _WRONG_PATH else ""
        reason = f"{where}{error.strerror or error}" + (f"; {fix}" if fix else "")
        return _reported(error, f"error: {reason}", FAILED, debug)
    except Exception as error:
        if isinstance(error, _USAGE_ERROR):
            reason = error.format_message().replace("Value error, ", "") or "no command is named"
            return _reported(error, f"error: {reason}{_how_to_write(error)}", USAGE, debug)
        reason = f"{type(error).__name__}: {error}".strip().splitlines()[0]
        return _reported(error, f"unexpected: {reason}; run again with --debug", UNEXPECTED, debug)
    return status if isinstance(status, int) else 0


# typer's own errors (an unknown option, a missing argument) have no public base class.
_USAGE_ERROR: type[typer.BadParameter] = typer.BadParameter.__mro__[2]


def _how_to_write(error: Any) -> str:
    """The usage of the verb that was called wrongly. A wrong value has its choices, or its form, in the error."""
    if error.ctx is None:
        return ""
    if type(error) is typer.BadParameter:
        return f"\n    fix: correct it; {error.ctx.command_path} --help has more"
    usage = " ".join([error.ctx.command_path, *error.ctx.command.collect_usage_pieces(error.ctx)])
    usage = re.sub(r"{([A-Z]+)}", r"\1", usage)
    return f"\n    fix: write {usage}; --help has more"


def _reported(error: BaseException, message: str, status: int, debug: bool) -> int:
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    print(message, file=sys.stderr)
    return status
