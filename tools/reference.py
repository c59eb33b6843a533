"""The pages of the reference, made from the code: the pipeline file, the command line, Python, errors."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import typer
from pydantic import BaseModel

import latecomer
from latecomer import testing
from latecomer.cli import app
from latecomer.config.jsonschema import pipeline_schema
from latecomer.model.durations import format_duration

FOLDER = "docs/reference"


def pages() -> dict[str, str]:
    """Path in the site: text, of every page."""
    return {
        f"{FOLDER}/pipeline-file.md": pipeline_file(pipeline_schema()),
        f"{FOLDER}/command-line.md": command_line(app),
        f"{FOLDER}/python.md": python(),
        f"{FOLDER}/errors.md": errors(),
    }


def cell(text: object) -> str:
    """Text as a cell of a table.

    >>> cell("a | b\\nc")
    'a \\\\| b c'
    """
    return " ".join(str(text).split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text in a cell, as code; nothing stays nothing. A bar needs no escape there.

    >>> code("a|b"), code("")
    ('`a|b`', '')
    """
    return f"`{' '.join(str(text).split())}`" if str(text) else ""


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in lines)


# The pipeline file


def pipeline_file(schema: dict[str, Any]) -> str:
    """Every key of the pipeline file, from its JSON Schema."""
    named: dict[str, Any] = dict(schema["$defs"])
    sinks = _sinks(named["Output"]["properties"]["sinks"]["items"])
    text = [
        "# The pipeline file, key by key\n\nThis page is made from the models that read the file; "
        "`latecomer schema` prints the same as a JSON Schema, for editors. "
        "[The pipeline file](../pipeline-file.md) explains the keys. "
        "Durations are written `500ms`, `30s`, `5m`, `1h`, `1d`.\n",
        "## The file\n\n" + _keys(schema),
    ]
    for name, shape in sorted(named.items()):
        text.append(
            f"## {name} {{#{name.lower()}}}\n\n{_sentence(shape.get('description', ''))}{_shape(shape)}"
        )
    text.append(
        "## Sinks\n\nA sink is a key with the kind's settings, or with the one setting that it cannot do without.\n"
    )
    text += [
        f"### {kind}\n\n{_sentence(shape.get('description', ''))}{_shape(shape)}" for kind, shape in sinks
    ]
    return "\n".join(text)


def _sentence(text: str) -> str:
    return f"{text}\n\n" if text else ""


def _shape(shape: dict[str, Any]) -> str:
    if "enum" in shape:
        return "One of " + ", ".join(code(each) for each in shape["enum"]) + ".\n"
    if "properties" in shape:
        return _keys(shape)
    found = [each for each in shape.get("oneOf", shape.get("anyOf", [])) if "properties" in each]
    if not found:
        return f"{_type(shape)}\n"
    return "\nor\n\n".join(_keys(each) for each in found)


def _keys(shape: dict[str, Any]) -> str:
    required = set(shape.get("required", []))
    rows = [
        (
            code(key),
            _type(each),
            "required" if key in required else code(_default(each)),
            cell(each.get("description", "")),
        )
        for key, each in shape["properties"].items()
    ]
    return table(("key", "value", "default", "what it is"), rows)


def _default(shape: dict[str, Any]) -> str:
    default = shape.get("default", "")
    if isinstance(default, bool):
        return str(default).lower()
    return "" if default is None else str(default)


def _type(shape: dict[str, Any]) -> str:
    """What may stand there, in words."""
    if reference := shape.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "enum" in shape or "const" in shape:
        return ", ".join(
            code(_default({"default": each})) for each in shape.get("enum", [shape.get("const")])
        )
    if choices := shape.get("oneOf", shape.get("anyOf")):
        if any("sqlite" in each.get("properties", {}) for each in choices):
            return "[sink](#sinks)"
        words = [_type(each) for each in choices if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(word for word in words if word))
    kind = shape.get("type", "")
    if kind == "array":
        return f"list of {_type(shape.get('items', {})) or 'values'}"
    if kind == "object":
        inner = shape.get("additionalProperties")
        return f"name: {_type(inner)}" if isinstance(inner, dict) and _type(inner) else "object"
    if "(us|ms|s|m|h|d)" in shape.get("pattern", ""):
        return "duration"
    return {"string": "text", "integer": "whole number", "boolean": "`true`, `false`"}.get(
        str(kind), str(kind)
    )


def _sinks(items: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for choice in items["oneOf"]:
        for kind, shape in choice.get("properties", {}).items():
            yield kind, next(each for each in shape["oneOf"] if "properties" in each)


# The command line


def command_line(of: typer.Typer) -> str:
    """Every verb with its arguments and options, as `--help` has them."""
    root: Any = typer.main.get_command(of)
    text = [
        "# The command line\n\nThis page is made from the code; `latecomer VERB --help` prints the same. "
        "Exit codes: 0 done, 1 failed, 2 wrong usage or pipeline file, 70 a bug in latecomer: report it.\n",
        "## Before or after any verb\n\n" + _options(root),
    ]
    for name, command in _verbs(root):
        text.append(f"## {name}\n\n{_usage(name, command)}{_paragraphs(command.help)}\n\n{_options(command)}")
    return "\n".join(text)


def _verbs(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if command.hidden:
            continue
        if not hasattr(command, "commands") or getattr(command, "invoke_without_command", False):
            yield before + name, command
        if hasattr(command, "commands"):
            yield from _verbs(command, f"{before}{name} ")


def _usage(name: str, command: Any) -> str:
    arguments = [_metavar(each) for each in command.params if each.param_type_name == "argument"]
    return f"```\nlatecomer {' '.join([name, *arguments])} [OPTIONS]\n```\n\n"


def _paragraphs(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("\b", "")


def _metavar(parameter: Any) -> str:
    name = (parameter.metavar or parameter.name.upper()).strip("[]")
    return name if parameter.required else f"[{name}]"


def _options(command: Any) -> str:
    choices = _choices(command.callback)
    rows = [
        (_written(each, choices), _unless_said(each), cell(each.help or ""))
        for each in command.params
        if not each.hidden and each.name != "help"
    ]
    return table(("option", "default", "what it does"), rows) if rows else ""


def _written(parameter: Any, choices: dict[str, str]) -> str:
    if parameter.param_type_name == "argument":
        return code(_metavar(parameter))
    names = ", ".join([*parameter.opts, *parameter.secondary_opts])
    value = "" if parameter.is_flag else parameter.metavar or choices.get(parameter.name, "VALUE")
    return code(f"{names} {value}".strip())


def _unless_said(parameter: Any) -> str:
    if parameter.required:
        return "required"
    default = parameter.default
    if default is None or default is False or callable(default) or default in ([], ()):
        return ""
    return code(default.value if isinstance(default, enum.Enum) else default)


def _choices(callback: Any) -> dict[str, str]:
    """Option: its values where they are few, else what kind of value it is."""
    found = {}
    for name, kind in typing.get_type_hints(callback).items() if callback else ():
        for each in typing.get_args(kind) or (kind,):
            if inspect.isclass(each) and issubclass(each, enum.Enum):
                found[name] = "|".join(str(member.value) for member in each)
            elif each is int:
                found[name] = "N"
            elif inspect.isclass(each) and each.__name__ == "Path":
                found[name] = "PATH"
    return found


# Python


def python() -> str:
    """Every public name of the package and of its testing kit, with its docstring."""
    text = [
        "# Python\n\nThis page is made from the code. It has every public name of `latecomer` and of "
        "`latecomer.testing`; what is not here may change at any time. "
        "[From Python](../python.md) has an example, [Test a pipeline](../testing.md) has more of the testing kit. "
        "Errors have [a page of their own](errors.md).\n"
    ]
    for module in (latecomer, testing):
        text.append(f"## {module.__name__}\n")
        for name in module.__all__:
            thing = getattr(module, name)
            is_error = inspect.isclass(thing) and issubclass(thing, latecomer.LatecomerError)
            if not is_error and not name.startswith("__"):
                text.append(_public(name, thing))
    return "\n".join(text)


def _public(name: str, thing: Any) -> str:
    if not (inspect.isclass(thing) or (callable(thing) and inspect.isroutine(thing))):
        return f"### {name}\n\n{_alias(thing)}\n"
    parts = [f"### {name}\n"]
    if inspect.isclass(thing) and issubclass(thing, BaseModel):
        parts += [_documented(thing), _fields(thing)]
    else:
        parts += [f"```python\n{_signature(name, thing, lines=True)}\n```\n", _documented(thing)]
    if inspect.isclass(thing):
        parts += [
            f"- `{_signature(each, method)}`  \n  {' '.join(_documented(method).split())}\n"
            for each, method in vars(thing).items()
            if inspect.isfunction(method) and not each.startswith("_") and inspect.getdoc(method)
        ]
    return "\n".join(part for part in parts if part)


def _alias(thing: Any) -> str:
    inner = typing.get_args(thing)[0] if typing.get_args(thing) else type(thing)
    return f"The type of a field: `{inner.__name__}`, also written as text."


def _documented(thing: Any) -> str:
    """A docstring as Markdown: doctests and drawings as code."""
    text = inspect.getdoc(thing) or ""
    text = re.sub(r"(^>>> .*?)(?=\n\n|\Z)", r"```pycon\n\1\n```", text, flags=re.MULTILINE | re.DOTALL)
    return f"{text}\n"


def _signature(name: str, thing: Any, lines: bool = False) -> str:
    """Name and arguments, one a line where they are many."""
    try:
        signature = inspect.signature(thing)
    except ValueError:
        return name
    arguments = [str(each) for each in signature.parameters.values() if each.name != "self"]
    bare = [each.replace("'", "") if "= '" not in each else each for each in arguments]
    returns = signature.return_annotation
    arrow = "" if returns in (inspect.Signature.empty, None, "None") else f" -> {returns}"
    bare = [re.sub(r"<(?:function|factory).*>$", "...", each) for each in bare]
    written = f"{name}({', '.join(bare)}){arrow}"
    return (
        written
        if len(written) <= 100 or not lines
        else "".join([f"{name}(\n", *(f"    {each},\n" for each in bare), f"){arrow}"])
    )


def _fields(model: type[BaseModel]) -> str:
    rows = []
    durations = {
        name for name, field in model.model_fields.items() if _is_duration(field.annotation, field.metadata)
    }
    for name, field in model.model_fields.items():
        default = "required"
        if not field.is_required():
            value = field.get_default(call_default_factory=True)
            default = code(
                repr(format_duration(value))
                if name in durations and isinstance(value, int)
                else _shown(value)
            )
        rows.append((code(name), default, cell(field.description or "")))
    return table(("field", "default", "what it is"), rows) if rows else ""


def _is_duration(annotation: object, metadata: object) -> bool:
    """Whether a field is written as a duration: then its type says how."""
    return format_duration.__name__ in repr((annotation, metadata))


def _shown(value: Any) -> str:
    return repr(value.value) if isinstance(value, enum.Enum) else repr(value)


# Errors


def errors() -> str:
    """The tree of errors, and what each says of itself."""
    base = latecomer.LatecomerError
    text = [
        "# Errors\n\nThis page is made from the code. Every error that is raised on purpose is a `LatecomerError`. "
        "`latecomer.errors` has all of them, `latecomer` those that programs raise or expect. "
        "The command line prints its message alone; `--debug` adds the stack trace. "
        "A `PipelineError` and wrong usage exit with 2, the others with 1.\n",
        "```\n" + "\n".join(_tree(base)) + "\n```\n",
    ]
    for error in _errors(base):
        kind = "" if error is base else f"A kind of `{error.__bases__[0].__name__}`.\n\n"
        text.append(f"## {error.__name__}\n\n{kind}{_documented(error)}")
    return "\n".join(text)


def _errors(base: type[Exception]) -> Iterator[type[Exception]]:
    public = _public_subclasses(base)
    yield base
    for each in public:
        yield from _errors(each)


def _public_subclasses(base: type[Exception]) -> list[type[Exception]]:
    return [
        each
        for each in base.__subclasses__()
        if each.__module__ == "latecomer.errors" or each.__name__ in testing.__all__
    ]


def _tree(base: type[Exception], before: str = "") -> Iterator[str]:
    if not before:
        yield base.__name__
    public = _public_subclasses(base)
    for each in public:
        last = each is public[-1]
        yield f"{before}{'└── ' if last else '├── '}{each.__name__}"
        yield from _tree(each, before + ("    " if last else "│   "))
