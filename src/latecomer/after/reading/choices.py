"""What one can choose between. Apart from the rest, so that the command line starts without Arrow."""

from __future__ import annotations

from enum import StrEnum


class Grain(StrEnum):
    """By what corrections are grouped."""

    WINDOW = "window"
    HOUR = "hour"
    DAY = "day"


class Clock(StrEnum):
    """From when on a pane counts as known."""

    PUBLISHED = "published"
    """Once its batch was published, by the wall clock."""
    ARRIVAL = "arrival"
    """Once what fired it had arrived, by the arrival clock: as if each event had been processed at once."""


class Origin(StrEnum):
    """Where a number comes from, and which one is preferred."""

    LIVE = "live"
    """The stream published it."""
    CORRECTED = "corrected"
    """The same, and what came late added up."""
    REBUILT = "rebuilt"
    """A rebuild published it."""


class Engine(StrEnum):
    """Whose SQL a view is written in."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRES = "postgres"
