"""A client's JSON is read field by field, or refused with one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from visr.errors import UserError
from visr.explorer.messages import MAX_BYTES, RequestFields


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[1]", b"3", b'"x"', b"null", b'{"a": NaN}', b'{"a": -Infinity}', b"\xff\xfe",
        b'{"a":' * 5000 + b"1" + b"}" * 5000, b"[" * 100_000, b'{"a":' + b"[" * 9 + b"]" * 9 + b"}",
        b'{"a": "' + b"x" * MAX_BYTES + b'"}',
    ],
)  # fmt: skip
def test_anything_but_a_small_json_object_is_refused(body: bytes):
    with pytest.raises(UserError):
        RequestFields.parse(body)


@pytest.mark.parametrize("value", [None, True, "1", [1], {}, 1e13, -0.1, 1.1])
def test_a_number_is_a_number_within_its_bounds(value: Any):
    with pytest.raises(UserError, match="speed is not a finite number from 0 to 1"):
        RequestFields({"speed": value}).number("speed", 0, 1)


@pytest.mark.parametrize("value", [True, 1.0, "1", -1, 2**40, 10**400])
def test_a_whole_number_is_whole(value: Any):
    with pytest.raises(UserError, match="seed is not a whole number"):
        RequestFields({"seed": value}).integer("seed", 0, 2**31)


@pytest.mark.parametrize("value", ["x" * 11, "a\nb", "a\x00", 3, None, "\u202e"])
def test_text_is_short_and_on_one_line(value: Any):
    with pytest.raises(UserError, match=r"The request does not fit: .*name"):
        RequestFields({"name": value}).text("name", 10)


@pytest.mark.parametrize("value", [[1, 2], [1, 2, "3"], [1, 2, 1e300], [[1, 2, 3]], "123", None])
def test_a_vector_has_exactly_as_many_numbers_as_it_should(value: Any):
    with pytest.raises(UserError, match="The request does not fit: w"):
        RequestFields({"w": value}).numbers("w", 3)


@settings(max_examples=40, deadline=None)
@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_content_is_parsed_or_refused_with_one_sentence(content: Any):
    try:
        fields = RequestFields.parse(json.dumps({"w": content}))
        assert fields.numbers("w", 2).shape == (2,)
    except UserError as refused:
        sentence = str(refused)
        assert sentence.endswith(".")
