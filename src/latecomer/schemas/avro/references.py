"""Types that a schema takes from others."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.schemas.avro.types import Named, Reference, Schema, Type, children, parts
from latecomer.schemas.mistakes import DEEPEST_TYPE, SchemaError, too_deep


def known_types(references: Mapping[str, Schema], strict: bool = True) -> dict[str, Named]:
    """The named types of other schemas. Confluent's registry takes any text for the name of a reference to one."""
    found: dict[str, Named] = {}
    for name, schema in references.items():
        if strict and name not in schema.names:
            fix = (
                f"refer to a name that it defines: {', '.join(sorted(schema.names)[:10]) or 'there is none'}"
            )
            raise SchemaError(("references", name), "is not defined in the schema it stands for", fix)
        for each in schema.names.values():
            if found.setdefault(each.name, each) != each:
                fix = "refer to versions that agree on it"
                raise SchemaError(
                    ("references", name), f"defines {each.name} otherwise than another does", fix
                )
    return found


def within_reach(root: Type, known: Mapping[str, Named]) -> tuple[Named, ...]:
    """Types of other schemas that a tree needs, directly or not, by name."""
    found: dict[str, Named] = {}
    left = [root]
    while left:
        for each in parts(left.pop()):
            if isinstance(each, Reference) and each.name in known and each.name not in found:
                found[each.name] = known[each.name]
                left.append(known[each.name])
    return tuple(found[name] for name in sorted(found))


def require_shallow(schema: Schema) -> None:
    """Together with what it refers to, a schema must not be deeper than one that is written as one text."""
    left: list[tuple[Type, int]] = [(schema.root, 0)]
    seen = set[str]()
    while left:
        each, depth = left.pop()
        if depth > DEEPEST_TYPE:
            raise too_deep(())
        if isinstance(each, Reference | Named):
            if each.name in seen:
                continue
            seen.add(each.name)
        inner = schema.resolve(each)
        left.extend((child, depth + 1) for _, child in reversed(children(inner)))
