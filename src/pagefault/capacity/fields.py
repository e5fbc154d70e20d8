"""A model configuration as fields that are read one by one, each with an error that names it."""

from __future__ import annotations

from typing import Any

from pagefault.errors import ConfigError

_ABSENT: Any = object()


class Fields:
    """One object of a ``config.json``; reading a field checks its type and range.

    Attributes:
        notes: Defaults that were taken because a field is absent, for people.
    """

    def __init__(
        self, values: dict[str, Any], source: str, path: str = "", notes: list[str] | None = None
    ) -> None:
        self._values = values
        self._source = source
        self._path = path
        self.notes: list[str] = [] if notes is None else notes

    def error(self, name: str, got: str, expected: str) -> ConfigError:
        """An error about a field: what it is, what was expected."""
        return ConfigError(f"{self._source}: {self._path}{name} is {got}; expected {expected}")

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def with_defaults(self, values: dict[str, Any]) -> Fields:
        """The same fields, and these where they are absent."""
        return Fields(values | self._values, self._source, self._path, self.notes)

    def names(self) -> list[str]:
        """The names of all fields."""
        return list(self._values)

    def is_null(self, name: str) -> bool:
        """Whether the field is there and says null, which is not the same as being absent."""
        return name in self._values and self._values[name] is None

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, under the first of several names that is there.

        Args:
            names: The field's name, and older ones.
            default: What the family's own code takes where the field is absent; taking it is noted.
            least: The smallest number allowed.

        Raises:
            ConfigError: The field is absent without a default, or not such a number.
        """
        for name in names:
            value = self._values.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise self.error(name, repr(value), f"a whole number, {least} or more")
            return value
        if default is None:
            raise self.error(names[0], "missing", f"a whole number, {least} or more")
        self.notes.append(f"{self._path}{names[0]} is absent: {default}, the default of this model type")
        return default

    def optional(self, name: str) -> int | None:
        """A whole number of at least 1, or None where the field is absent or null."""
        return self.count(name) if name in self else None

    def flag(self, name: str, default: bool) -> bool:
        """True or false.

        Raises:
            ConfigError: The field is something else.
        """
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, repr(value), "true or false")
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
                raise self.error(name, repr(value), "a string")
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
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise self.error(name, type(value).__name__, f"a list of {kind.__name__}")
        if length is not None and len(value) != length:
            raise self.error(name, f"a list of {len(value)}", f"one entry for each of {length} layers")
        return value

    def inner(self, name: str) -> Fields | None:
        """A nested object, or None where it is absent.

        Raises:
            ConfigError: The field is something else.
        """
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, type(value).__name__, "an object")
        return Fields(value, self._source, f"{self._path}{name}.", self.notes)
