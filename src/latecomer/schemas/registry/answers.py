"""What a registry answered, value by value. One of another form than expected is a `RegistryError` with its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from latecomer.errors import RegistryError
from latecomer.errors.redacting import without_secrets
from latecomer.schemas.mistakes import Path, Step, shown_value, written_path

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """A value of an answer, with the registry and the path that were asked, and its place in the answer.

    >>> Answer({"id": "7"}, "the registry", "/subjects/a/versions")["id"].whole_number()
    Traceback (most recent call last):
    latecomer.errors.RegistryError: the registry does not answer as a schema registry does: \
/subjects/a/versions: id is "7", and not a whole number; see that the URL is right, its path included
    """

    value: Any
    registry: str
    path: str
    place: Path = ()

    def __getitem__(self, name: str) -> Answer:
        """A field of an object; null where the object has no such field."""
        return self._inner(name, self.fields().get(name))

    def whole_number(self) -> int:
        return self._as(int, "a whole number")

    def text(self) -> str:
        return self._as(str, "text")

    def flag(self) -> bool:
        return self._as(bool, "true or false")

    def items(self) -> list[Answer]:
        return [self._inner(index, each) for index, each in enumerate(self._as(list, "a list"))]

    def fields(self) -> dict[str, Any]:
        return self._as(dict, "an object")

    def _as(self, kind: type[T], wanted: str) -> T:
        if type(self.value) is not kind:
            self.refuse(wanted)
        return self.value

    def refuse(self, wanted: str) -> NoReturn:
        """Raise the error that names this value and its place."""
        place = written_path(self.place) if self.place else "the answer"
        shown = without_secrets(shown_value(self.value))
        raise not_a_registry(self.registry, f": {self.path}: {place} is {shown}, and not {wanted}")

    def _inner(self, step: Step, value: Any) -> Answer:
        return Answer(value, self.registry, self.path, (*self.place, step))


def not_a_registry(shown: str, reason: str = "") -> RegistryError:
    return RegistryError(
        f"{shown} does not answer as a schema registry does{reason}; "
        "see that the URL is right, its path included"
    )
