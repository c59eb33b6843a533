"""What schemas of every kind have in common: the levels of a registry, errors, limits, JSON from anywhere."""

from latecomer.model.schemas.levels import Breach, Level, Policy
from latecomer.model.schemas.mistakes import SchemaError, written_path

__all__ = ["Breach", "Level", "Policy", "SchemaError", "written_path"]
