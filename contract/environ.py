"""Read a container's environment into a config, once, reporting every problem in one error.

    reader = EnvironReader(os.environ)
    uri = reader.required("STORAGE_URI")
    workers = reader.integer("MAX_WORKERS", default=8, minimum=1)
    token = reader.secret("ACCESS_TOKEN")
    reader.finish()          # raises ConfigError with all missing and malformed names

A default fills in only when the variable is absent. An empty string counts as absent where `empty_is_absent` says so
(Kubeflow's initializers treat it that way, so it is the default here).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, overload

from trainyard.contract.errors import ConfigError

_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})


class Secret:
    """A value that must not be printed: `str()` and `repr()` hide it, `reveal()` gives it."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Give the value, for the one call that needs it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class EnvironReader:
    """Collects values and problems from a mapping; `finish` raises one ConfigError with all problems."""

    def __init__(self, environ: Mapping[str, str], *, empty_is_absent: bool = True) -> None:
        self._environ = environ
        self._empty_is_absent = empty_is_absent
        self._problems: list[str] = []

    def _get(self, name: str) -> str | None:
        value = self._environ.get(name)
        if value is None or (self._empty_is_absent and not value.strip()):
            return None
        return value

    def problem(self, text: str) -> None:
        """Add a problem that the caller found: `NAME: expected ..., got ...`."""
        self._problems.append(text)

    def required(self, name: str) -> str:
        """Read a text that must be there; an empty one stands in until `finish` raises."""
        value = self._get(name)
        if value is None:
            self._problems.append(f"{name}: required, not set")
            return ""
        return value

    @overload
    def text(self, name: str, default: str) -> str: ...
    @overload
    def text(self, name: str, default: None = None) -> str | None: ...
    def text(self, name: str, default: str | None = None) -> str | None:
        """Read a text."""
        value = self._get(name)
        return default if value is None else value

    def words(self, name: str) -> tuple[str, ...]:
        """Read a comma-separated list; blanks around items and empty items go."""
        value = self._get(name)
        return tuple(item.strip() for item in value.split(",") if item.strip()) if value is not None else ()

    def integer(self, name: str, default: int, *, minimum: int | None = None, maximum: int | None = None) -> int:
        """Read an integer within bounds (both included)."""
        value = self._get(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            self._problems.append(f"{name}: expected an integer, got {value!r}")
            return default
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            low = "" if minimum is None else f" at least {minimum}"
            high = "" if maximum is None else f" at most {maximum}"
            self._problems.append(f"{name}: expected{low}{' and' if low and high else ''}{high}, got {number}")
            return default
        return number

    def boolean(self, name: str, default: bool) -> bool:
        """Read true/false, 1/0, yes/no, on/off in any case."""
        value = self._get(name)
        if value is None:
            return default
        word = value.strip().lower()
        if word in _TRUE:
            return True
        if word not in _FALSE:
            self._problems.append(f"{name}: expected true or false, got {value!r}")
            return default
        return False

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """Read one of a few words."""
        value = self._get(name)
        if value is None:
            return default
        if value not in allowed:
            self._problems.append(f"{name}: expected one of {', '.join(allowed)}, got {value!r}")
            return default
        return value

    def json_object(self, name: str) -> dict[str, Any] | None:
        """Read a JSON object."""
        value = self._get(name)
        if value is None:
            return None
        try:
            parsed = json.loads(value)
        except ValueError as error:
            self._problems.append(f"{name}: expected a JSON object, got {value!r} ({error})")
            return None
        if not isinstance(parsed, dict):
            self._problems.append(f"{name}: expected a JSON object, got {value!r}")
            return None
        return parsed

    def secret(self, name: str) -> Secret | None:
        """Read a secret from `NAME`, or from the file that `NAME_FILE` names; setting both is an error."""
        value, file = self._get(name), self._get(f"{name}_FILE")
        if value is not None and file is not None:
            self._problems.append(f"{name}: set {name} or {name}_FILE, not both")
            return None
        if file is not None:
            try:
                value = Path(file).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                detail = getattr(error, "strerror", None) or type(error).__name__
                self._problems.append(f"{name}_FILE: cannot read {file!r}: {detail}")
                return None
            if not value:
                self._problems.append(f"{name}_FILE: {file!r} is empty")
                return None
        return None if value is None else Secret(value)

    def finish(self) -> None:
        """Raise one ConfigError with every problem found so far, if any."""
        if self._problems:
            raise ConfigError("; ".join(self._problems))
