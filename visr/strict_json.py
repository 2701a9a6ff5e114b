"""The one reader of JSON: text of limited size and depth, finite numbers, and each name at most once.

Every JSON text is read here: files of a run, metadata of safetensors files, messages of the explorer.
`visr.storage.schema` then checks the types.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

LARGEST = 64 * 1024 * 1024
"""Bytes of a text."""
DEEPEST = 32
"""Levels of lists and objects; the deepest of our own files has 8."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.|\\\Z)*+(?:"|\Z)|[\[{]|[\]}]', re.DOTALL)
"""Texts in quotation marks, and brackets outside of them; the end of the text closes an open one."""


def parse(text: bytes | str, largest: int = LARGEST, deepest: int = DEEPEST) -> Any:
    """The content of a JSON text, or a ValueError that says what is wrong."""
    if len(text) > largest:
        raise ValueError(f"it is larger than {largest:,} bytes")
    if isinstance(text, bytes):
        text = text.decode("utf-8")  # a UnicodeDecodeError is a ValueError
    if _is_deeper(text, deepest):
        raise ValueError(f"it is nested more than {deepest} deep")
    return json.loads(
        text,
        parse_constant=_refuse_constant,
        parse_float=_finite,
        object_pairs_hook=_distinct,
    )


def without_nan(value: Any) -> Any:
    """The same value with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: without_nan(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _is_deeper(text: str, most: int) -> bool:
    """Whether brackets are nested deeper, found without recursion."""
    depth = 0
    for token in _TOKEN.finditer(text):
        first = text[token.start()]
        if first in "[{":
            depth += 1
            if depth > most:
                return True
        elif first in "]}":
            depth -= 1
    return False


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise ValueError(f"{twice[:60]!r} occurs twice")
    return content


def encodable(text: str) -> str:
    """`text` with lone surrogates escaped: JSON may hold them, but UTF-8 cannot encode them."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
