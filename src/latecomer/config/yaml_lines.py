"""Reads YAML files safely and keeps the line of every value, so that a mistake can be reported with its line.

Pipeline files, migration files and transcripts are read with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from latecomer.errors import PipelineError, Problem
from latecomer.objects.small_files import TooLarge, as_text, small_bytes

PIPELINE = "pipeline file"
MAX_BYTES = 1_000_000
MAX_NODES = 20_000

Location = tuple[str | int, ...]


class Nodes(yaml.SafeLoader):
    """Safe YAML for pipeline files."""


class TimesAsText(yaml.SafeLoader):
    """The same for files with many times: `14:00` and `2026-04-25` stay text. YAML itself reads the first as 840."""


_SCALARS = "tag:yaml.org,2002:"
TimesAsText.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag.removeprefix(_SCALARS) in ("null", "bool", "merge")]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
TimesAsText.add_implicit_resolver(f"{_SCALARS}int", re.compile(r"-?(0|[1-9][0-9]*)$"), [*"-0123456789"])
TimesAsText.add_implicit_resolver(f"{_SCALARS}float", re.compile(r"-?[0-9]+\.[0-9]+$"), [*"-0123456789"])


def read_text(file: Path, what: str = PIPELINE) -> str:
    """The text of a file that is not too large."""
    try:
        return as_text(small_bytes(file, MAX_BYTES))
    except TooLarge:
        raise whole_file(file, f"is too large for a {what}", "keep it under 1 MB", what) from None
    except FileNotFoundError:
        raise whole_file(file, "there is no such file", "check the path", what) from None
    except IsADirectoryError:
        raise whole_file(file, "is a folder", f"name a {what}", what) from None
    except UnicodeDecodeError as error:
        message = f"cannot be read: byte {error.start + 1} is not text in UTF-8"
        raise whole_file(file, message, "save it as text in UTF-8, or correct the path", what) from None
    except OSError as error:
        fix = "correct the path, or give whoever runs latecomer the right to read it"
        raise whole_file(file, f"cannot be read: {error.strerror or error}", fix, what) from None


def compose(
    text: str, file: Path, what: str = PIPELINE, loading: type[yaml.SafeLoader] = Nodes
) -> tuple[Any, dict[Location, int]]:
    """The document, and the line of every value in it."""
    loader = loading(text)
    try:
        node = loader.get_single_node()
        lines: dict[Location, int] = {}
        _number(node, (), lines, file, what)
        return (loader.construct_document(node) if node is not None else None), lines
    except PipelineError:  # a ValueError too
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        problem = Problem(
            what,
            f"is not valid YAML: {error.problem or error.context}",
            fix=f"check indentation, quotes and brackets on this line{_opened(error)}",
            file=str(file),
            line=line,
        )
        raise PipelineError([problem]) from None
    except RecursionError:
        message = "is nested too deeply, or refers to itself"
        raise whole_file(file, message, "write every value out, without anchors", what) from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise whole_file(file, f"is not valid YAML: {error}", "check the file", what) from None
    finally:
        loader.dispose()


def _opened(error: yaml.MarkedYAMLError) -> str:
    """Where the bracket or the quote was opened that YAML was reading, if that is another line: it may lack its end."""
    around, found = error.context_mark, error.problem_mark
    if around is None or found is None or around.line == found.line:
        return ""
    opened = next((each for each in ("flow", "quoted") if each in (error.context or "")), None)
    if opened is None:
        return ""
    return (
        f", and whether the {'bracket' if opened == 'flow' else 'quote'} of line {around.line + 1} is closed"
    )


def whole_file(file: Path, message: str, fix: str, what: str = PIPELINE) -> PipelineError:
    """A problem of the whole file, without a line."""
    return PipelineError([Problem(what, message, fix=fix, file=str(file))])


def _number(
    node: yaml.Node | None, location: Location, lines: dict[Location, int], file: Path, what: str
) -> None:
    if node is None:
        return
    lines.setdefault(location, node.start_mark.line + 1)
    if len(lines) > MAX_NODES:
        raise whole_file(file, "has too many entries", f"split the {what.removesuffix(' file')}", what)
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _require_word(key, location, file)
            place = (*location, key.value)
            if place in lines:
                raise _at_key(key, place, file, "is written twice", "keep one of the two, or rename one")
            lines[place] = key.start_mark.line + 1
            _number(value, place, lines, file, what)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _number(value, (*location, index), lines, file, what)


def _require_word(key: yaml.Node, location: Location, file: Path) -> None:
    """Refuse keys that YAML does not read as text (7, no, 14:00): they must be in quotes."""
    if not isinstance(key, yaml.ScalarNode):
        raise _at_key(key, location, file, "has a key that is not a word", "write `name: value`")
    if key.tag not in (f"{_SCALARS}str", f"{_SCALARS}merge"):
        fix = f'write it in quotes: "{key.value}"'
        raise _at_key(key, (*location, key.value), file, "is a key that YAML does not read as text", fix)


def _at_key(key: yaml.Node, place: Location, file: Path, message: str, fix: str) -> PipelineError:
    line = key.start_mark.line + 1
    return PipelineError([Problem(dotted(place), message, fix=fix, file=str(file), line=line)])


def dotted(location: Location) -> str:
    """`outputs.totals.sinks[0]`"""
    text = ""
    for step in location:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text or PIPELINE


def line_of(location: Location, lines: Mapping[Location, int]) -> int | None:
    """The line of a location, or of the nearest one around it."""
    while location not in lines and location:
        location = location[:-1]
    return lines.get(location)
