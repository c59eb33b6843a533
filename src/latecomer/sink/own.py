"""A sink of the user's own. Whatever it raises becomes one sentence, and an outage where it may pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from latecomer.config.contract import Shape, SinkLogic
from latecomer.config.sinks import Sink
from latecomer.errors import SinkError, SinkOutage, first_line
from latecomer.errors.redacting import without_secrets
from latecomer.sink.base import last_sentence


class OwnLogic(SinkLogic):
    """Wraps a class of the user's."""

    def __init__(self, sink: Sink, pipeline: str, shape: Shape) -> None:
        self._sink, self._shape = sink, shape
        with self._errors_in_words():
            self._logic = sink.logic(pipeline, shape)
            if not isinstance(self._logic, SinkLogic):
                raise TypeError(f"logic() returned a {type(self._logic).__name__}, not a latecomer.SinkLogic")

    def open(self) -> None:
        with self._errors_in_words():
            self._logic.open()

    def last_batch(self) -> int:
        with self._errors_in_words():
            last = self._logic.last_batch()
            if type(last) is not int:
                raise TypeError(f"last_batch() returned {last!r}, not the number of a batch")
            return last

    def apply(self, batch: int, panes: pa.Table) -> None:
        with self._errors_in_words(batch):
            self._logic.apply(batch, panes.select(self._shape.schema.names).cast(self._shape.schema))

    def skip(self, batch: int) -> None:
        with self._errors_in_words(batch):
            self._logic.skip(batch)

    def close(self) -> None:
        with self._errors_in_words():
            self._logic.close()

    def peek(self) -> int | None:
        with self._errors_in_words():
            return self._logic.peek()

    @contextmanager
    def _errors_in_words(self, batch: int | None = None) -> Iterator[None]:
        try:
            yield
        except SinkOutage as error:
            raise self._outage(error.reason, batch) from error
        except SinkError as error:
            raise SinkError(self._sentence(without_secrets(str(error)), batch)) from error
        except OSError as error:
            raise self._outage(first_line(error), batch) from error
        except Exception as error:
            reason = f"its class failed with {type(error).__name__}: {without_secrets(first_line(error))}"
            raise SinkError(self._sentence(f"{reason}; correct the class", batch)) from error

    def _outage(self, reason: str, batch: int | None) -> SinkOutage:
        return SinkOutage(reason, self._sentence(without_secrets(reason), batch))

    def _sentence(self, reason: str, batch: int | None) -> str:
        place = without_secrets(self._sink.place)
        return f"{self._sink.kind} sink {place}: {reason.rstrip('.')}. {last_sentence(batch)}"
