"""Read a client's JSON field by field, with bounds on every size and range."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError
from visr.inference.expression import short

MAX_BYTES = 512 * 1024
"""Largest message or request body."""
_MAX_DEPTH = 8
_MAX_NUMBER = 1e12


class RequestFields:
    """One JSON object from a client."""

    def __init__(self, content: Any) -> None:
        if not isinstance(content, dict):
            raise UserError("The request is not a JSON object.")
        self._content = content

    @classmethod
    def parse(cls, body: bytes | str) -> RequestFields:
        """Parse JSON text; refuse NaN, infinity and deep nesting."""
        if len(body) > MAX_BYTES:
            raise UserError(f"The request is larger than {MAX_BYTES:,} bytes.")
        try:
            content = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise UserError("The request is not JSON.") from None
        if _depth(content, _MAX_DEPTH) < 0:
            raise UserError(f"The request is nested more than {_MAX_DEPTH} deep.")
        return cls(content)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A real number within bounds."""
        value = self._content.get(name, default)
        if not _is_number(value) or not low <= value <= high:
            raise UserError(
                f"{name} must be a number from {low:g} to {high:g}, not {_shorten(value)}."
            )
        return float(value)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer within bounds."""
        value = self._content.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise UserError(
                f"{name} must be a whole number from {low} to {high}, not {_shorten(value)}."
            )
        return value

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        value = self._content.get(name, default)
        if not isinstance(value, bool):
            raise UserError(f"{name} must be true or false, not {_shorten(value)}.")
        return value

    def text(self, name: str, most: int, default: str | None = None) -> str:
        """One line of text without control characters."""
        value = self._content.get(name, default)
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise UserError(f"{name} must be a line of at most {most} characters.")
        return value

    def numbers(self, name: str, count: int) -> NDArray[np.float64]:
        """Exactly `count` real numbers, [count]."""
        return self._vector(self._content.get(name), name, count)

    def rows(self, name: str, count: int, most: int) -> NDArray[np.float64]:
        """At least one and at most `most` lists of numbers, [N, count]."""
        value = self._content.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise UserError(f"{name} must be 1 to {most} lists of {count} numbers.")
        return np.stack([self._vector(row, name, count) for row in value])

    def objects(self, name: str, most: int) -> list[RequestFields]:
        """At least one and at most `most` JSON objects."""
        value = self._content.get(name)
        if not isinstance(value, list) or not 1 <= len(value) <= most:
            raise UserError(f"{name} must be a list of 1 to {most} objects.")
        return [RequestFields(part) for part in value]

    @staticmethod
    def _vector(value: Any, name: str, count: int) -> NDArray[np.float64]:
        if not isinstance(value, list) or len(value) != count or not all(map(_is_number, value)):
            raise UserError(f"{name} must be {count} finite numbers of at most {_MAX_NUMBER:.0e}.")
        return np.asarray(value, dtype=np.float64)


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and abs(value) <= _MAX_NUMBER and math.isfinite(value)


def _shorten(value: Any) -> str:
    return short(json.dumps(value)[:100])


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def _depth(value: Any, left: int) -> int:
    """Levels of nesting left; negative if there are too many."""
    if left < 0 or not isinstance(value, dict | list):
        return left
    parts = value.values() if isinstance(value, dict) else value
    return min(
        (_depth(part, left - 1) for part in parts if isinstance(part, dict | list)), default=left
    )
