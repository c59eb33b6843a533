"""Changes values in a pipeline file and nothing else: comments, order and spacing stay.

The file is parsed to nodes that know their positions, and the new text is inserted there. The result is parsed again.
It must equal the old document with the new values; otherwise nothing is written.
"""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from latecomer.config.load import parse_pipeline
from latecomer.config.yaml_lines import Nodes, compose
from latecomer.errors import PipelineError, Problem

Path_ = tuple[str, ...]


def patched(text: str, values: Mapping[Path_, str], file: Path) -> str:
    """The text with these values; each is given with the keys that lead to it."""
    before, _ = compose(text, file)
    expected, new_text = copy.deepcopy(before), text
    for path, value in values.items():
        _put(expected, path, value, file)
        new_text = _with_value(new_text, path, value, file)
    try:
        after, _ = compose(new_text, file)
    except PipelineError:  # the old value had an anchor
        raise _by_hand(values, file) from None
    if after != expected:
        raise _by_hand(values, file)
    parse_pipeline(new_text, file)
    return new_text


def write_patched(file: Path, values: Mapping[Path_, str]) -> None:
    """Write values into a pipeline file, all of them or none. Its mode and its line ends stay."""
    raw = file.read_bytes().decode("utf-8")
    windows = "\r\n" in raw
    text = patched(raw.replace("\r\n", "\n"), values, file)
    target = file.resolve()
    number, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(number, "wb") as new:
            new.write((text.replace("\n", "\r\n") if windows else text).encode("utf-8"))
            new.flush()
            os.fsync(new.fileno())
        Path(name).chmod(target.stat().st_mode & 0o7777)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink()
        raise


def _by_hand(values: Mapping[Path_, str], file: Path) -> PipelineError:
    settings = ", ".join(f"{'.'.join(path)}: {value}" for path, value in values.items())
    message, fix = "cannot be changed without changing more", f"write it by hand: {settings}"
    return PipelineError([Problem(".".join(next(iter(values))), message, fix=fix, file=str(file))])


def _put(document: Any, path: Path_, value: str, file: Path) -> None:
    place = document
    for step in path[:-1]:
        if not isinstance(place, dict):
            raise _by_hand({path: value}, file)
        if place.get(step) is None:
            place[step] = {}
        place = place[step]
    if not isinstance(place, dict):
        raise _by_hand({path: value}, file)
    place[path[-1]] = value


def _with_value(text: str, path: Path_, value: str, file: Path) -> str:
    loader = Nodes(text)
    try:
        node: yaml.Node | None = loader.get_single_node()
    finally:
        loader.dispose()
    for depth, step in enumerate(path):
        if not isinstance(node, yaml.MappingNode):
            raise _by_hand({path: value}, file)
        entry = next((each for key, each in node.value if key.value == step), None)
        if entry is None or (
            isinstance(entry, yaml.ScalarNode) and not entry.value and depth < len(path) - 1
        ):
            return _with_key(text, node, path[depth:], value, entry)
        node = entry
    if not isinstance(node, yaml.ScalarNode):
        raise _by_hand({path: value}, file)
    return text[: node.start_mark.index] + _quoted(value, node.style) + text[node.end_mark.index :]


def _with_key(
    text: str, node: yaml.MappingNode, keys: Path_, value: str, empty: yaml.ScalarNode | None
) -> str:
    """The text with a key that is missing, and the keys and the value below it."""
    quoted = bool(node.value) and node.value[0][0].style == '"'
    style = '"' if quoted else None
    inner = _quoted(value, style)
    for key in reversed(keys[1:]):
        inner = f"{{{_quoted(key, style)}: {inner}}}"
    if empty is not None:
        return text[: empty.start_mark.index] + " " + inner + text[empty.end_mark.index :]
    written = f"{_quoted(keys[0], style)}: {inner}"
    if node.flow_style:
        if not node.value:
            return text[: node.start_mark.index + 1] + written + text[node.start_mark.index + 1 :]
        end = node.value[-1][1].end_mark.index
        return f"{text[:end]}, {written}{text[end:]}"
    indent = " " * node.value[0][0].start_mark.column
    after = [value for _, value in node.value if _is_plain_line(value)]
    if after:
        end = text.find("\n", after[-1].end_mark.index)
        end = len(text) if end < 0 else end
        return f"{text[:end]}\n{indent}{written}{text[end:]}"
    start = node.value[0][0].start_mark.index
    return f"{text[:start]}{written}\n{indent}{text[start:]}"


def _is_plain_line(node: yaml.Node) -> bool:
    """Whether a value ends on the line on which it begins, so that another line may follow."""
    is_one_line = node.start_mark.line == node.end_mark.line
    return is_one_line and (not isinstance(node, yaml.ScalarNode) or node.style in (None, '"', "'"))


def _quoted(value: str, style: str | None) -> str:
    """A value as YAML: in quotes where its neighbours are, or where YAML would read something else than this text."""
    if style == "'":
        return "'" + value.replace("'", "''") + "'"
    plain = value.replace("_", "").replace("-", "").isalnum() and not value[0].isdigit()
    duration = value[:1].isdigit() and value.isalnum() and not value.isdecimal()
    read = yaml.safe_load(value) if plain or duration else None
    return value if style is None and read == value else json.dumps(value, ensure_ascii=False)
