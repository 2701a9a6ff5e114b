"""The reader of JSON: size, depth, finite numbers, names that occur once; nothing else reads JSON."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from visr import strict_json

ROOT = Path(__file__).parents[1] / "visr"
READERS = ("json.loads", "json.load", "json.JSONDecoder")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"[" * 10_000, "nested more than 32 deep"),
        (b'{"a":' * 33 + b"1" + b"}" * 33, "nested more than 32 deep"),
        (b'["' + b"[" * 50 + b'"' + b"[" * 40, "nested more than 32 deep"),
        (b'{"a": NaN}', "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"[1e999]", "1e999 is too large"),
        (b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (b'[{"b": {"a": 1, "a": 1}}]', "'a' occurs twice"),
        (b"\xff", "decode"),
        (b"\xef\xbb\xbf{}", "BOM"),
        ("{}".encode("utf-16"), "decode"),
        (b"1" * 5_000, "digits"),
        (b'"' + b'\\"' * 100_000, "Unterminated"),
        (b'"\\', "Unterminated|Invalid"),
        (b"", "Expecting value"),
    ],
)
def test_a_text_that_is_not_strict_json_is_a_value_error(text: bytes, reason: str):
    with pytest.raises(ValueError, match=reason):
        strict_json.parse(text)


def test_brackets_in_texts_do_not_count():
    text = json.dumps({"[" * 100: ']{\\"' * 100, "b": [[[]]]})
    assert strict_json.parse(text) == json.loads(text)


def test_size_is_checked_before_parsing():
    with pytest.raises(ValueError, match="larger than 10 bytes"):
        strict_json.parse(b" " * 11, largest=10)


def test_depth_is_found_without_recursion():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)  # the parser of Python would crash here
    try:
        with pytest.raises(ValueError, match="nested"):
            strict_json.parse(b"[" * 10**6)
    finally:
        sys.setrecursionlimit(before)


PLAIN = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text() | some.floats(-1e300, 1e300),
    lambda part: some.lists(part, max_size=4) | some.dictionaries(some.text(), part, max_size=4),
)


@settings(max_examples=200, deadline=None)
@given(content=PLAIN)
def test_what_python_writes_is_read_back(content: Any):
    assert strict_json.parse(json.dumps(content)) == content
    assert strict_json.parse(json.dumps(content, ensure_ascii=True).encode()) == content


@settings(max_examples=300, deadline=None)
@given(text=some.binary(max_size=60) | some.text(alphabet='[]{}",:\\ue1N', max_size=60))
def test_any_text_is_content_or_a_value_error(text: bytes | str):
    try:
        strict_json.parse(text)
    except ValueError:
        return


def test_nothing_else_reads_json():
    found = {
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in READERS
    }
    assert found == {"strict_json.py"}


def test_the_last_of_many_names_that_occurs_twice_is_found_at_once():
    """Each name is looked up once: comparing each with all would take an hour."""
    names = ", ".join(f'"{number}": 0' for number in range(200_000))
    with pytest.raises(ValueError, match="'199999' occurs twice"):
        strict_json.parse(f'{{{names}, "199999": 1}}')
