"""A watermark strategy of the user's own: `module:Class`, found beside the pipeline file or on the path."""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from latecomer.model.strategies import Custom, Strategy

MISTAKE = "custom_strategy"
"""The kind of error raised here. Its context has the field below `watermark`, the value and the fix."""


def load_strategy(written: Custom, base: Path) -> Strategy:
    """The strategy that the file names, made with its options."""
    module_name, _, class_name = written.strategy.partition(":")
    found = _class(_module(module_name, written.strategy, base), class_name, written.strategy)
    shared = written.model_dump(mode="json", include=written.model_fields_set & Strategy.model_fields.keys())
    try:
        return found.model_validate({**shared, **written.options})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(step) for step in ("options", *first["loc"]))
        told = first["msg"].removeprefix("Value error, ")
        message, _, fix = told.partition("; ")
        if first["type"] == "extra_forbidden":
            own = sorted(found.model_fields.keys() - Strategy.model_fields.keys())
            message, fix = "unknown key", f"the options of {class_name} are {', '.join(own) or 'none'}"
        elif first["type"] == "missing":
            message, fix = "is missing", f"add it to options: of {class_name}"
        raise _mistake(place, message, first["input"], fix or f"write what {class_name} takes") from None


def _module(name: str, value: str, base: Path) -> ModuleType:
    """The module beside the pipeline file if it is there, else as Python finds it."""
    beside = base.resolve().joinpath(*name.split("."))
    folder = str(base.resolve())
    importlib.invalidate_caches()
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        message, fix = f"module {name} cannot be loaded: {error!r}", "correct the module"
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            message, fix = f"there is no module {name}", f"put {name}.py beside the pipeline file"
        raise _mistake("strategy", message, value, fix) from None
    finally:
        sys.path.remove(folder)
    loaded = Path(module.__file__ or "")
    for file in (beside.with_suffix(".py"), beside / "__init__.py"):
        if file.is_file() and loaded != file:
            raise _mistake(
                "strategy",
                f"another module {name} is loaded already ({loaded})",
                value,
                f"rename {file.name}",
            )
    return module


def _class(module: ModuleType, name: str, value: str) -> type[Strategy]:
    found = getattr(module, name, None)
    if inspect.isclass(found) and issubclass(found, Strategy):
        return found
    if found is not None:
        raise _mistake(
            "strategy", f"{name} is not a strategy", value, f"write class {name}(latecomer.Strategy):"
        )
    there = [each for each, kind in vars(module).items() if _own_strategy(kind, module)]
    near = difflib.get_close_matches(name, there, n=1)
    fix = f"did you mean {near[0]}?" if near else f"{module.__name__} has {', '.join(there) or 'no strategy'}"
    raise _mistake("strategy", f"module {module.__name__} has no class {name}", value, fix)


def _own_strategy(kind: object, module: ModuleType) -> bool:
    return inspect.isclass(kind) and issubclass(kind, Strategy) and kind.__module__ == module.__name__


def _mistake(field: str, message: str, value: object, fix: str) -> PydanticCustomError:
    return PydanticCustomError(
        MISTAKE, "{message}; {fix}", {"field": field, "message": message, "value": value, "fix": fix}
    )
