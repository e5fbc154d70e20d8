"""A model configuration as fields that are read one by one, each with an error that names it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pagefault.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST = 2**31 - 1
"""No width, count or context length is larger: files that say so are broken."""

MOST_LAYERS = 10_000


def shown(value: Any) -> str:
    """A value as an error shows it: as in Python, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Fields:
    """One object of a ``config.json``; reading a field checks its type and range.

    Attributes:
        notes: Defaults that were taken because a field is absent, for people.
    """

    def __init__(
        self,
        values: dict[str, Any],
        source: str,
        path: str = "",
        notes: list[str] | None = None,
        assumed: Mapping[str, Any] | None = None,
    ) -> None:
        self._values = values
        self._source = source
        self._path = path
        self._assumed: Mapping[str, Any] = {} if assumed is None else assumed
        self.notes: list[str] = [] if notes is None else notes

    def error(self, name: str, got: str, expected: str) -> ConfigError:
        """An error about a field: what it is, what was expected."""
        return ConfigError(f"{self._source}: {self._path}{name} is {got}; expected {expected}")

    def __contains__(self, name: str) -> bool:
        return self._values.get(name, self._assumed.get(name)) is not None

    def inheriting(self, values: dict[str, Any]) -> Fields:
        """The same fields, and these, which the file gives elsewhere, where they are absent."""
        return Fields(values | self._values, self._source, self._path, self.notes, self._assumed)

    def assuming(self, defaults: Mapping[str, Any]) -> Fields:
        """The same fields, and these defaults of the model type where they are absent; taking one is noted.

        A field that says null is not absent.
        """
        return Fields(self._values, self._source, self._path, self.notes, defaults)

    def _value(self, name: str) -> Any:
        if name in self._values or name not in self._assumed:
            return self._values.get(name)
        value = self._assumed[name]
        self._note(name, value)
        return value

    def _note(self, name: str, default: Any) -> None:
        said = str(default).lower() if isinstance(default, bool) else default
        self.notes.append(f"{self._path}{name} is not given: {said}, the default of this model type")

    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._values)

    def is_null(self, name: str) -> bool:
        """Whether the field is there and says null, which is not the same as being absent."""
        return name in self._values and self._values[name] is None

    def count(self, *names: str, default: int | None = None, least: int = 1, most: int = LARGEST) -> int:
        """A whole number, under the first of several names that is there.

        Args:
            names: The field's name, and older ones.
            default: What the family's own code takes where the field is absent or null; taking it is noted.
            least: The smallest number allowed.
            most: The largest.

        Raises:
            ConfigError: The field is absent without a default, or not such a number.
        """
        found = [name for name in names if name in self._values] or [name for name in names if name in self]
        for name in found:
            value = self._value(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise self.error(name, shown(value), _range(least, most))
            return value
        if default is None:
            state = "null" if self.is_null(names[0]) else "missing"
            raise self.error(names[0], state, _range(least, most))
        self._note(names[0], default)
        return default

    def layers(self, *names: str) -> int:
        """How many layers: as `count`, and small enough to look at each."""
        return self.count(*(names or ("num_hidden_layers",)), most=MOST_LAYERS)

    def optional(self, name: str) -> int | None:
        """A whole number of at least 1, or None where the field is absent or null."""
        return self.count(name) if name in self else None

    def flag(self, name: str, default: bool) -> bool:
        """True or false.

        Raises:
            ConfigError: The field is something else.
        """
        value = self._value(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, shown(value), "true or false")
        return value

    def text(self, *names: str) -> str | None:
        """A string, or None where the field is absent.

        Raises:
            ConfigError: The field is something else.
        """
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if not isinstance(value, str):
                raise self.error(name, shown(value), "a string")
            return value
        return None

    def items(self, name: str, kind: type, length: int | None = None) -> list[Any] | None:
        """A list of `kind`, or None where the field is absent.

        Raises:
            ConfigError: The field is something else or has another length.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.error(name, shown(value), f"a list of {_PLURALS[kind]}")
        for number, item in enumerate(value):
            if type(item) is not kind:
                raise self.error(f"{name}[{number}]", shown(item), f"one of a list of {_PLURALS[kind]}")
        if length is not None and len(value) != length:
            raise self.error(name, f"a list of {len(value)}", f"one entry for each of {length} layers")
        return value

    def pair(self, name: str) -> tuple[int, int] | None:
        """Two whole numbers of at least 1, or None where the field is absent.

        Raises:
            ConfigError: The field is something else.
        """
        value = self.items(name, int)
        if value is None:
            return None
        if len(value) != 2 or not all(1 <= item <= LARGEST for item in value):
            raise self.error(name, shown(value), "two whole numbers, 1 or more")
        return value[0], value[1]

    def inner(self, name: str) -> Fields | None:
        """A nested object, or None where it is absent.

        Raises:
            ConfigError: The field is something else.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, shown(value), "an object")
        return Fields(value, self._source, f"{self._path}{name}.", self.notes)


_PLURALS = {int: "whole numbers", str: "strings"}


def _range(least: int, most: int) -> str:
    return f"a whole number, {least} or more" if most == LARGEST else f"a whole number from {least} to {most}"
