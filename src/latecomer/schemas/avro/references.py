"""Types that a schema uses from other schemas."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.schemas.avro.types import Named, Reference, Schema, Type, children, parts
from latecomer.schemas.mistakes import DEEPEST_TYPE, SchemaError, too_deep


def known_types(references: Mapping[str, Schema], strict: bool = True) -> dict[str, Named]:
    """The named types of other schemas. In Confluent's registry the name of a reference may be any text."""
    types: dict[str, Named] = {}
    for name, schema in references.items():
        if strict and name not in schema.names:
            fix = (
                f"refer to a name that it defines: {', '.join(sorted(schema.names)[:10]) or 'there is none'}"
            )
            raise SchemaError(("references", name), "is not defined in the schema that it refers to", fix)
        for each in schema.names.values():
            if types.setdefault(each.name, each) != each:
                fix = "refer to versions that agree on it"
                raise SchemaError(
                    ("references", name), f"defines {each.name} differently from another reference", fix
                )
    return types


def within_reach(root: Type, known: Mapping[str, Named]) -> tuple[Named, ...]:
    """The types of other schemas that a tree needs, directly or indirectly, sorted by name."""
    needed: dict[str, Named] = {}
    pending = [root]
    while pending:
        for each in parts(pending.pop()):
            if isinstance(each, Reference) and each.name in known and each.name not in needed:
                needed[each.name] = known[each.name]
                pending.append(known[each.name])
    return tuple(needed[name] for name in sorted(needed))


def require_shallow(schema: Schema) -> None:
    """Refuse a schema that would be too deep if its references were written out."""
    pending: list[tuple[Type, int]] = [(schema.root, 0)]
    seen = set[str]()
    while pending:
        each, depth = pending.pop()
        if depth > DEEPEST_TYPE:
            raise too_deep(())
        if isinstance(each, Reference | Named):
            if each.name in seen:
                continue
            seen.add(each.name)
        inner = schema.resolve(each)
        pending.extend((child, depth + 1) for _, child in reversed(children(inner)))
