"""Records from untrusted JSON: what fits comes back unchanged, what does not is named in one sentence."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from visr.config import Bound, FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.storage import schema


@dataclass(frozen=True)
class Inner:
    count: Annotated[int, Bound(0)]


@dataclass(frozen=True)
class Other:
    level: Literal["low", "high"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Record:
    FORMAT: ClassVar[int] = 3

    name: Annotated[str, Bound(1, 8)]
    share: Annotated[float, Bound(0, 1)]
    w: Annotated[NDArray[np.float64], Bound(-10, 10)]
    error: Annotated[NDArray[np.float64], schema.NULL_IS_INF]
    actions: NDArray[np.int64]
    limit: Annotated[float, schema.NULL_IS_INF]
    parts: Annotated[tuple[Inner, ...], Bound(1, 2)]
    by_name: dict[str, float]
    either: Inner | Other | None
    run: RunConfig = field(default_factory=RunConfig)
    settings: FinetuneConfig = field(default_factory=FinetuneConfig)
    is_new: bool = False


FITTING: dict[str, Any] = {
    "format": 3,
    "name": "goal",
    "share": 1,
    "w": [0.5, 2],
    "error": [0.25, None],
    "actions": [0, 3],
    "limit": None,
    "parts": [{"count": 2}],
    "by_name": {"a": 0.5},
    "either": {"level": "low"},
}


def test_a_record_comes_back_as_it_was_written():
    record = schema.read(Record, FITTING)
    assert record.limit == math.inf
    assert record.error.tolist() == [0.25, math.inf]
    assert (record.actions.dtype, record.share) == (np.int64, 1.0)
    assert (record.parts, record.either, record.is_new) == ((Inner(2),), Other("low"), False)
    content = json.loads(json.dumps(schema.to_dict(record), allow_nan=False))
    assert list(content)[:3] == ["format", "name", "share"]
    assert {k: v for k, v in content.items() if k in FITTING} == FITTING
    again = schema.read(Record, content)
    assert (again.run, again.settings) == (RunConfig(), FinetuneConfig())


def test_unknown_keys_are_ignored():
    assert schema.read(Inner, {"count": 1, "more": float("nan")}) == Inner(1)


MISFITS = [
    ("format", 2, "its format is 2 and this visr reads 3"),
    ("name", 7, "name is not text"),
    ("name", "", "the length of name is not a number from 1 to 8"),
    ("share", True, "share is not a finite number from 0 to 1"),
    ("share", "0.5", "share is not a finite number from 0 to 1"),
    ("share", float("nan"), "share is not a finite number from 0 to 1"),
    ("w", [11], "w is not a list of finite numbers of at most 10"),
    ("w", ["1"], "w is not a list of finite numbers"),
    ("w", [True], "w is not a list of finite numbers"),
    ("w", [[1.0]], "w is not a list of finite numbers"),
    ("w", [None], "w is not a list of finite numbers"),
    ("w", [10**400], "w is not a list of finite numbers"),
    ("w", [], "w is not a list of finite numbers"),
    ("w", 1.0, "w is not a list of finite numbers"),
    ("error", None, "error is not a list of finite numbers"),
    ("error", [float("inf")], "error is not a list of finite numbers"),
    ("actions", [0.5], "actions is not a list of whole numbers"),
    ("limit", 10**400, "limit is not a finite number"),
    ("parts", {}, "parts is not a list"),
    ("parts", [], "the length of parts is not a number from 1 to 2"),
    ("parts", [7], "parts is not a JSON object"),
    ("parts", [{}], "count is missing"),
    ("parts", [{"count": -1}], "count is not a whole number of at least 0"),
    ("by_name", [1], "by_name is not a JSON object"),
    ("by_name", {"a": "b"}, "a is not a finite number"),
    ("either", {"level": "middle"}, "level is not one of low, high"),
    ("either", {"count": "x"}, "count is not a whole number"),
    ("run", {"env": 5}, "an object with an `env`"),
    ("settings", 7, "settings is not a JSON object"),
    ("settings", {"num_steps": 0}, "num_steps = 0 is too small"),
    ("is_new", 1, "is_new is neither true nor false"),
]


@pytest.mark.parametrize(("key", "value", "words"), MISFITS)
def test_what_does_not_fit_is_named_in_one_sentence(key: str, value: Any, words: str):
    with pytest.raises(UserError) as error, schema.refusing("x.json is damaged", "restore it"):
        schema.read(Record, FITTING | {key: value})
    assert str(error.value).startswith("x.json is damaged (")
    assert words in str(error.value)
    assert str(error.value).endswith("); restore it.")


@pytest.mark.parametrize("content", [None, [], "text", 7, {"format": [3]}, {"format": 3}])
def test_content_that_is_no_such_record_is_refused(content: Any):
    with pytest.raises(ValueError, match=r"is not a JSON object|its format|name is missing"):
        schema.read(Record, content)


def test_half_a_surrogate_pair_in_a_text_is_spelled_out():
    assert schema.read(Record, FITTING | {"name": "\ud800"}).name == "\\ud800"
