"""One window for all events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field, model_serializer

from latecomer.model.array_types import Micros
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows.base import FIRST_MOMENT, FOREVER, Assigned, SideBySide, Window


class Global(SideBySide):
    """One window for all of time, which only a drain closes: `Global()`, `{global: true}`.

    >>> Global().assign(0) == Window(FIRST_MOMENT, END_OF_TIME)
    True
    """

    kind: ClassVar[str] = "global"
    example: ClassVar[str] = "global: true"
    endless: ClassVar[bool] = True

    whole: Literal[True] = Field(alias="global")

    def __init__(self, value: Literal[True] = True, /, **fields: Any) -> None:
        super().__init__(**{self.kind: value, **fields})

    @model_serializer
    def _written(self) -> dict[str, bool]:
        return {self.kind: True}

    @property
    def step(self) -> int:
        return FOREVER

    @property
    def reach(self) -> int:
        return FOREVER

    def assign(self, event_time: int) -> Window:
        return Window(FIRST_MOMENT, END_OF_TIME)

    def assign_many(self, times: Micros) -> Assigned:
        import numpy as np

        start, end = (np.full(len(times), moment, np.int64) for moment in (FIRST_MOMENT, END_OF_TIME))
        return Assigned.one_each(start, end)

    def ends(self, after: int, until: int) -> Iterator[int]:
        if after < END_OF_TIME <= until:
            yield END_OF_TIME
