"""A breaking change of a schema in four phases: expand, dual_write, migrate, contract. Pure: the clock is passed in.

Migration         the file: old fields, new fields, SQL each way, consumers, soak times, the limit for drift
Phase, MigrationState   the state of a migration, as a registry stores it
MigrationRules    the rules that a registry enforces by itself
expanded_text, contracted_text   the schema with both shapes, and with the new one alone
obstacles         why it cannot advance yet
calendar          when each phase can begin at the earliest
"""

from latecomer.schemas.migrations.deciding import (
    MigrationRules,
    Obstacle,
    Situation,
    calendar,
    consumer_standings,
    due_since,
    obstacles,
)
from latecomer.schemas.migrations.definition import Consumer, Migration, NewField, Soak
from latecomer.schemas.migrations.drift import Checks, checks_of
from latecomer.schemas.migrations.phases import LastSeen, MeasuredDrift, MigrationState, Phase, Read
from latecomer.schemas.migrations.shapes import contracted_text, expanded_text, reader_problems

__all__ = [
    "Checks",
    "Consumer",
    "LastSeen",
    "MeasuredDrift",
    "Migration",
    "MigrationRules",
    "MigrationState",
    "NewField",
    "Obstacle",
    "Phase",
    "Read",
    "Situation",
    "Soak",
    "calendar",
    "checks_of",
    "consumer_standings",
    "contracted_text",
    "due_since",
    "expanded_text",
    "obstacles",
    "reader_problems",
]
