"""Inputs that a broken program or a malicious stranger might hand in; all of them follow from a seed."""

from __future__ import annotations

import copy
import json
import random
import string
from typing import Any

NUMBERS = (
    *(0, 1, -1, 2, 5, 7, 99, 100, 10**6, 2**31, 2**63, 2**64, 10**30, 10**400, -(10**19)),
    *(
        0.0,
        -0.0,
        0.5,
        1.0,
        1e-320,
        1e12,
        1e13,
        1e308,
        -1e308,
        float("nan"),
        float("inf"),
        float("-inf"),
    ),
)
TEXTS = (
    *(
        "",
        " ",
        "x",
        "é",
        "目标",
        "\x00",
        "\n",
        "\r\n",
        "\x1b[31m",
        "\u2028",
        "\u202e",
        "\ud800",
        "NaN",
    ),
    *(
        "nan",
        "1e999",
        "../..",
        "/etc/passwd",
        "__class__",
        "module:X-v0",
        "x" * 1000,
        "%s%n",
        "{0.a}",
    ),
)
NODES = (
    "row",
    "col",
    "height",
    "width",
    "pi",
    "1",
    "0",
    "2.5",
    "1e12",
    "9",
    "-3",
    "x",
    "row.T",
    "''",
)
_FUNCTIONS = (
    "abs",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "floor",
    "sign",
    "min",
    "max",
    "where",
    "eval",
)
_BINARY = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<",
    "<=",
    ">",
    ">=",
    "==",
    "!=",
    " and ",
    " or ",
    "@",
    "<<",
    "&",
)
_ODD = (
    "lambda: {}",
    "[{0} for x in {0}]",
    "({0}).real",
    "({0})[0]",
    "f'{{{0}}}'",
    "({0}:={0})",
    "{0} if {0}",
)


def expression(random: random.Random, depth: int = 4) -> str:
    """A sentence of the language, mostly; now and then one of Python's that ours must refuse."""
    kind = random.randrange(12) if depth else 0
    if kind < 2:
        return random.choice(NODES)
    part = lambda: expression(random, depth - 1)  # noqa: E731
    if kind < 6:
        return f"{part()}{random.choice(_BINARY)}{part()}"
    if kind < 8:
        count = random.choice((0, 1, 1, 2, 3))
        return f"{random.choice(_FUNCTIONS)}({', '.join(part() for _ in range(count))})"
    if kind == 8:
        return f"({part()})"
    if kind == 9:
        return f"{part()} if {part()} else {part()}"
    if kind == 10:
        return f"{random.choice(('-', '+', 'not ', '~', '--'))}{part()}"
    return random.choice(_ODD).format(part())


def value(random: random.Random, depth: int = 2) -> Any:
    """Anything that JSON can say, and Python's NaN and infinities."""
    kind = random.randrange(9)
    if kind < 4:
        return random.choice(NUMBERS)
    if kind < 6:
        return random.choice(TEXTS)
    if kind == 6 or not depth:
        return random.choice((None, True, False))
    if kind == 7:
        return [value(random, depth - 1) for _ in range(random.randrange(6))]
    return {random.choice(TEXTS): value(random, depth - 1) for _ in range(random.randrange(4))}


def changed(random: random.Random, content: Any, times: int | None = None) -> Any:
    """A copy of nested lists and dictionaries in which some parts were replaced, removed, added or moved."""
    content = copy.deepcopy(content)
    for _ in range(random.randrange(1, 4) if times is None else times):
        places = _places(content)
        if not places:
            return value(random)
        box, key = random.choice(places)
        kind = random.randrange(6)
        if kind < 3:
            box[key] = value(random)
        elif kind == 3:
            del box[key]
        elif kind == 4:
            other, where = random.choice(places)
            if not isinstance(other, list) or where < len(other):
                box[key] = copy.deepcopy(
                    other.get(where) if isinstance(other, dict) else other[where]
                )
        elif isinstance(box, dict):
            box[random.choice(TEXTS)] = value(random)
        else:
            box.insert(key, value(random))
    return content


def _places(content: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) there is."""
    if not isinstance(content, dict | list):
        return []
    keys = list(content) if isinstance(content, dict) else list(range(len(content)))
    below = [place for key in keys for place in _places(content[key])]
    return [(content, key) for key in keys] + below


def document(random: random.Random, content: Any) -> bytes:
    """A JSON text: the content changed, and one time in three bitten, too."""
    text = json.dumps(changed(random, content)).encode()
    if random.randrange(40) == 0:
        deep = random.randrange(1, 50_000)
        return random.choice((b"[", b'{"a":')) * deep + random.choice((b"", b"]" * deep))
    return bitten(random, text) if random.randrange(3) == 0 else text


def bitten(random: random.Random, text: bytes) -> bytes:
    """Bytes cut, doubled, flipped, or replaced by others."""
    data = bytearray(text)
    for _ in range(random.randrange(1, 5)):
        place = random.randrange(len(data) + 1)
        kind = random.randrange(5)
        if kind == 0:
            del data[place : place + random.randrange(1, 20)]
        elif kind == 1:
            data[place:place] = random.randbytes(random.randrange(1, 8))
        elif kind == 2 and place < len(data):
            data[place] ^= 1 << random.randrange(8)
        elif kind == 3:
            data[place:place] = data[place : place + random.randrange(1, 40)]
        else:
            del data[place:]
    return bytes(data)


def characters(random: random.Random, text: str) -> str:
    """Characters cut, doubled, or replaced by others."""
    letters = list(text)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(letters) + 1)
        kind = random.randrange(3)
        if kind == 0:
            del letters[place : place + random.randrange(1, 6)]
        elif kind == 1:
            letters[place:place] = random.choice((*TEXTS, *string.punctuation, "ｅ", "²", "٣", "ﬀ"))
        else:
            letters[place:place] = letters[place : place + random.randrange(1, 12)]
    return "".join(letters)
