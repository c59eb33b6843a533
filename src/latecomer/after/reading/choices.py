"""Choices of the command line, in a module of their own so that it starts without Arrow."""

from __future__ import annotations

from enum import StrEnum


class Grain(StrEnum):
    """What corrections are grouped by."""

    WINDOW = "window"
    HOUR = "hour"
    DAY = "day"


class Clock(StrEnum):
    """From when on a pane counts as known."""

    PUBLISHED = "published"
    """Once its batch was published, by the wall clock."""
    ARRIVAL = "arrival"
    """Once the event that fired it arrived, by the arrival clock: as if each event had been processed at once."""


class Origin(StrEnum):
    """Where a number comes from, and which one is preferred."""

    LIVE = "live"
    """The stream published it."""
    CORRECTED = "corrected"
    """The stream published it, and late events are added to it."""
    REBUILT = "rebuilt"
    """A rebuild published it."""


class Engine(StrEnum):
    """The engine whose SQL a view is written in."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRES = "postgres"
