"""Kubernetes quantities as exact numbers: `1` equals `1000m`, `1Gi` is 1073741824.

Grammar and rounding (nothing finer than a nano, upwards) are those of Kubernetes' resource.Quantity.
"""

import re
from dataclasses import dataclass, field
from typing import Final

_NANO: Final = 10**9
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_LIMIT: Final = 2**63 - 1
"""The largest value that Kubernetes keeps."""
_EXPECTED: Final = "expected a quantity such as 2, 500m or 16Gi"


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Quantity:
    """An amount of a resource. Compared and hashed by value; `str()` gives it as it was written."""

    nanos: int
    """The amount in billionths, so that every quantity is an integer."""
    text: str = field(compare=False)
    """As it was written."""

    def as_int_ceil(self) -> int:
        """Give the amount as an integer, rounded up: `500m` is 1."""
        return -(-self.nanos // _NANO)

    def as_bytes(self) -> int:
        """Give an amount of memory or disk in bytes."""
        return self.as_int_ceil()

    def as_float(self) -> float:
        """Give the amount as a float: `500m` is 0.5."""
        return self.nanos / _NANO

    def canonical(self) -> str:
        """Write the amount as the API server would: no fraction, the largest suffix of its family that fits."""
        if self.text.endswith("i") and self.nanos % _NANO == 0:
            whole = self.nanos // _NANO
            for suffix, power in reversed(_BINARY.items()):
                if whole and whole % (1 << power) == 0:
                    return f"{whole >> power}{suffix}"
            return str(whole)
        for suffix, power in reversed(_DECIMAL.items()):
            if self.nanos and self.nanos % 10 ** (power + 9) == 0:
                return f"{self.nanos // 10 ** (power + 9)}{suffix}"
        return "0"

    def __str__(self) -> str:
        return self.text


def parse_quantity(value: str | int | float) -> Quantity:
    """Read a quantity from a string, or from a JSON number as the SDK sends it; raise ValueError."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"{_EXPECTED}, got {value!r}")
    text = value if isinstance(value, str) else repr(value)
    match = _GRAMMAR.fullmatch(text) if len(text) <= 64 else None
    if match is None or not (match["whole"] or match["part"]):
        raise ValueError(f"{_EXPECTED}, got {value!r}" if len(text) <= 64 else f"{_EXPECTED}, got {text[:64]!r}...")
    part = match["part"] or ""
    suffix = match["suffix"] or ""
    ten = int(match["exponent"] or 0) + _DECIMAL.get(suffix, 0) - len(part) + 9
    numerator = int(f"{match['whole']}{part}") << _BINARY.get(suffix, 0)
    nanos = numerator * 10**ten if ten >= 0 else -(-numerator // 10**-ten)
    if nanos > _LIMIT * _NANO:
        raise ValueError(f"expected a quantity below 2^63, got {value!r}")
    return Quantity(nanos=-nanos if match["sign"] == "-" else nanos, text=text)
