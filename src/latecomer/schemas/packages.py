"""Imports schema types that need an extra."""

from __future__ import annotations

from types import ModuleType

from latecomer.errors import LatecomerError


def protobuf_model() -> ModuleType:
    """`latecomer.schemas.protobuf`. Raises LatecomerError if the package protobuf is not installed."""
    try:
        from latecomer.schemas import protobuf
    except ImportError as error:
        if not (error.name or "").startswith("google"):
            raise
        raise LatecomerError(
            "Protobuf needs the package protobuf; install it: pip install 'latecomer[protobuf]'"
        ) from None
    return protobuf
