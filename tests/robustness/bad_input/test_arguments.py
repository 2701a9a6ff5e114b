"""Every public function refuses wrong types of text, numbers and truth values by the argument's name."""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import visr
from visr import api, arguments
from visr.errors import UserError


class Broken:
    """An object that raises whatever is done with it."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __bool__(self) -> bool:
        raise ZeroDivisionError

    __eq__ = __len__ = __iter__ = __str__ = __repr__ = __float__ = __bool__  # pyright: ignore


WRONG = [
    object(),
    Broken(),
    [],
    {},
    b"x",
    {1},
    1j,
    int,
    lambda: 1,
    np.zeros(2),
    np.array([None, {}]),
]
VALID = {str: "x", bool: True, int: 1, float: 1.0}
NO_ARGUMENTS_OF_USERS = {"Run.__init__", "Policy.__init__", "Task.require_fit", "Task.from_dict"}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, and public methods of public classes."""
    for name in visr.__all__:
        found = getattr(visr, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found) and not issubclass(found, Exception):
            for method, function in inspect.getmembers(found, inspect.isfunction):
                of = f"{name}.{method}"
                if not method.startswith("_") and of not in NO_ARGUMENTS_OF_USERS:
                    yield of, function


def simple(function: Callable[..., Any]) -> dict[str, tuple[Any, ...]]:
    """The arguments that are text, numbers, truth values or one of several words."""
    known = vars(sys.modules[function.__module__])
    parameters = inspect.signature(function).parameters.values()
    kinds = {p.name: arguments.kinds_of(p.annotation, known) for p in parameters}
    return {name: kind for name, kind in kinds.items() if kind}


CASES = [
    (name, function, argument) for name, function in functions() for argument in simple(function)
]


def test_there_are_such_arguments():
    named = {name for name, _, _ in CASES}
    assert {
        "load",
        "pretrain",
        "resume",
        "pack",
        "push",
        "pull",
        "Run.infer",
        "Run.refine",
    } <= named
    assert len(CASES) > 50


@pytest.mark.parametrize(
    ("function", "argument"), [case[1:] for case in CASES], ids=[f"{c[0]}-{c[2]}" for c in CASES]
)
def test_a_wrong_type_is_refused_by_its_name(function: Callable[..., Any], argument: str):
    kinds = simple(function)
    given: dict[str, Any] = {
        name: None
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    given |= {name: VALID.get(kinds[name][0], kinds[name][0]) for name in given if name in kinds}
    wrong = list(WRONG)
    if None not in kinds[argument]:
        wrong.append(None)
    if bool not in kinds[argument]:
        wrong.append(True)
    if not {int, float} & set(kinds[argument]):
        wrong += [5, math.nan]
    elif float not in kinds[argument]:
        wrong += ["5", 0.5, math.nan, math.inf]
    for value in wrong:
        with pytest.raises(UserError, match=f"^{argument} = ") as refused:
            function(**(given | {argument: value}))
        assert len(str(refused.value)) < 300


def test_python_itself_names_an_argument_that_is_missing_or_unknown():
    with pytest.raises(TypeError, match=r"load\(\) missing 1 required positional argument: 'path'"):
        api.load()  # pyright: ignore
    with pytest.raises(TypeError, match=r"load\(\) got an unexpected keyword argument 'dvice'"):
        api.load("x", dvice="cpu")  # pyright: ignore


def test_numbers_of_numpy_are_numbers():
    @arguments.checked
    def takes(a: int, b: float, c: bool, d: str | None) -> tuple[Any, ...]:
        return a, b, c, d

    assert takes(np.int64(1), np.float32(2), np.True_, None)  # pyright: ignore
    assert takes(1, 2, False, "x") == (1, 2, False, "x")
