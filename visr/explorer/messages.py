"""JSON messages: a client's are read field by field, with bounds on every size and range."""

from __future__ import annotations

import json
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from visr import strict_json
from visr.config import Bound
from visr.errors import UserError
from visr.storage import schema

MAX_BYTES = 512 * 1024
"""Largest message or request body."""
TOO_LARGE = f"The request is larger than {MAX_BYTES:,} bytes."
_MAX_DEPTH = 8
_VECTOR = Annotated[NDArray[np.float64], Bound(-1e12, 1e12)]


def encoded(content: Any) -> bytes:
    """JSON bytes; NaN and infinity become null."""
    plain = strict_json.without_nan(content)
    return json.dumps(plain, allow_nan=False, separators=(",", ":")).encode()


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
            raise UserError(TOO_LARGE)
        try:
            content = strict_json.parse(body, MAX_BYTES, _MAX_DEPTH)
        except json.JSONDecodeError:
            raise UserError("The request is not JSON.") from None
        except ValueError as error:
            reason = "it is not text" if isinstance(error, UnicodeDecodeError) else error
            raise UserError(f"The request is not JSON: {reason}.") from None
        return cls(content)

    def number(self, name: str, low: float, high: float, default: float | None = None) -> float:
        """A real number within bounds."""
        return self._read(name, Annotated[float, Bound(low, high)], default)

    def integer(self, name: str, low: int, high: int, default: int | None = None) -> int:
        """An integer within bounds."""
        return self._read(name, Annotated[int, Bound(low, high)], default)

    def flag(self, name: str, default: bool | None = None) -> bool:
        """True or false."""
        return self._read(name, bool, default)

    def text(self, name: str, most: int, default: str | None = None) -> str:
        """One line of text without control characters."""
        value = self._read(name, Annotated[str, Bound(0, most)], default)
        if not value.isprintable():
            raise UserError(f"The request does not fit: {name} has control characters.")
        return value

    def numbers(self, name: str, count: int) -> NDArray[np.float64]:
        """Exactly `count` real numbers, [count]."""
        return self._of_length(self._read(name, _VECTOR), name, count)

    def rows(self, name: str, count: int, most: int, least: int = 1) -> NDArray[np.float64]:
        """At least `least` and at most `most` lists of numbers, [N, count]."""
        rows = self._read(name, Annotated[tuple[_VECTOR, ...], Bound(least, most)])
        checked = [self._of_length(row, name, count) for row in rows]
        return np.stack(checked) if checked else np.zeros((0, count))

    def objects(self, name: str, most: int) -> list[RequestFields]:
        """At least one and at most `most` JSON objects."""
        parts = self._read(name, Annotated[tuple[dict[str, Any], ...], Bound(1, most)])
        return [RequestFields(part) for part in parts]

    def _read(self, name: str, hint: Any, default: Any = None) -> Any:
        try:
            return schema.convert(self._content.get(name, default), hint, name)
        except ValueError as error:
            raise UserError(f"The request does not fit: {error}.") from None

    @staticmethod
    def _of_length(value: NDArray[np.float64], name: str, count: int) -> NDArray[np.float64]:
        if len(value) != count:
            raise UserError(f"The request does not fit: {name} does not have {count} numbers.")
        return value
