"""Check what users pass to the Python API; a refusal names the argument."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeGuard, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from visr.errors import UserError, one_line, short_repr

Given = ParamSpec("Given")
Result = TypeVar("Result")
Observed = ArrayLike | Mapping[str, Any] | Sequence[Any]
"""Observations as an environment gives them: numbers, or the parts of a Dict or Tuple."""
_LONGEST_NAME, _LONGEST_PATH = 255, 4096
"""Bytes of a file's name, and of a path, that operating systems take."""
_LARGEST = 2**63 - 1
_BOUNDS = {"seed": (0, _LARGEST), "epsilon": (0, 1), "num_episodes": (1, 10_000_000)}
"""Of arguments that mean the same everywhere; other whole numbers lie between -_LARGEST and _LARGEST."""
_PLAIN = {"str": str, "bool": bool, "int": int, "float": float, "None": None}


def checked(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Check the arguments that are annotated as text, truth values, numbers or one of several words."""
    signature = inspect.signature(function)
    kinds = {
        parameter.name: kinds_of(parameter.annotation, function.__globals__)
        for parameter in signature.parameters.values()
    }

    @functools.wraps(function)
    def call(*args: Given.args, **fields: Given.kwargs) -> Result:
        # too few arguments, or unknown ones, are Python's to refuse, at the call below
        with contextlib.suppress(TypeError):
            for name, value in signature.bind(*args, **fields).arguments.items():
                if kinds[name]:
                    _require(value, name, kinds[name])
        return function(*args, **fields)

    return call


def kinds_of(annotation: Any, known: Mapping[str, Any]) -> tuple[Any, ...]:
    """The types and words of an annotation such as "str | None"; none if it has other types, too."""
    kinds: list[Any] = []
    for part in str(annotation).split(" | "):
        if part in _PLAIN:
            kinds.append(_PLAIN[part])
        elif typing.get_origin(known.get(part)) is typing.Literal:
            kinds += typing.get_args(known[part])
        else:
            return ()
    return tuple(kinds)


def _require(value: Any, name: str, kinds: tuple[Any, ...]) -> None:
    """Refuse a value of another type: True is no number, and a number is no text."""
    words = [kind for kind in kinds if isinstance(kind, str)]
    if value is None and None in kinds:
        return
    if words:
        if not isinstance(value, str) or value not in words:
            raise UserError(f"{name} = {short_repr(value)} is not one of {', '.join(words)}.")
    elif bool in kinds:
        if not isinstance(value, bool | np.bool_):
            raise UserError(f"{name} = {short_repr(value)} is neither True nor False.")
    elif str in kinds:
        text(value, name)
    else:
        number(value, name, is_whole=float not in kinds)
        _require_bounds(value, name, is_whole=float not in kinds)


def _require_bounds(value: Any, name: str, is_whole: bool) -> None:
    low, high = _BOUNDS.get(name, (-_LARGEST, _LARGEST) if is_whole else (-math.inf, math.inf))
    if not low <= value <= high:  # NaN, too
        raise UserError(f"{name} = {short_repr(value)} does not lie between {low} and {high}.")


def path(value: Any, name: str) -> Path:
    """The path that an argument names."""
    with user_code(f"{name} = {short_repr(value)} is not a path"):
        text = os.fspath(value)
        os.fsencode(text)  # half of a character cannot be part of a name
    if not isinstance(text, str) or "\0" in text:
        raise UserError(f"{name} = {short_repr(value)} is not a path; give a str or a Path.")
    encoded = os.fsencode(text)
    if len(encoded) >= _LONGEST_PATH or any(len(n) > _LONGEST_NAME for n in encoded.split(b"/")):
        raise UserError(f"{name} = {short_repr(value)} is not a path: it is too long.")
    return Path(text)


def text(value: Any, name: str) -> str:
    """An argument that is text."""
    if not isinstance(value, str):
        raise UserError(f"{name} = {short_repr(value)} is not text; give a str.")
    return value


def optional_list(value: Any, name: str) -> None:
    """Refuse what is neither a list, nor a tuple, nor None."""
    if value is not None and not isinstance(value, list | tuple):
        raise UserError(f"{name} = {short_repr(value)} is not a list.")


def observer(value: Any) -> None:
    """Refuse an `observe` that cannot be called."""
    if value is not None and not callable(value):
        raise UserError(f"observe = {short_repr(value)} cannot be called; give a function.")


def number(value: Any, name: str, is_whole: bool = False) -> None:
    """Refuse what is no number, such as True or "5"; the caller checks its bounds."""
    if isinstance(value, bool) or not is_number(value, is_whole):
        words = "a whole number" if is_whole else "a number"
        raise UserError(f"{name} = {short_repr(value)} is not {words}.")


def is_number(value: Any, is_whole: bool = False) -> TypeGuard[float]:
    """Whether it is a real number of Python or numpy; to numpy a duration is a whole number, too."""
    kinds = (int, np.integer) if is_whole else (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, np.timedelta64)


def count(value: Any, name: str) -> None:
    """Refuse what is no whole number above 0."""
    number(value, name, is_whole=True)
    if value < 1:
        raise UserError(f"{name} = {value} is too small; it must be at least 1.")


def array(value: Any, name: str) -> NDArray:
    """An argument as an array; a masked array is refused, because its mask would be lost."""
    parts = value if isinstance(value, list | tuple) else ()
    if any(isinstance(part, np.ma.MaskedArray) for part in (value, *parts)):
        raise UserError(f"{name} is a masked array; fill it first, as in values.filled(0).")
    if type(value) is np.ndarray:  # a policy's observations: making the words below takes long
        return value
    with user_code(f"{name} = {short_repr(value)} is not an array of numbers"):
        return np.asarray(value)


def flags(value: Any, name: str, count: int) -> NDArray[np.bool_]:
    """An argument as an array of bool, [count]; one value counts for all."""
    found = array(value, name)
    if found.dtype.kind not in "biu" or found.shape not in ((), (1,), (count,)):
        raise UserError(f"{name} = {short_repr(value)} must be true or false for each observation.")
    return np.broadcast_to(found.astype(bool), count).copy()


@contextlib.contextmanager
def user_code(refusal: str) -> Iterator[None]:
    """A user's own exception becomes the cause of a UserError, and keeps its traceback."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        raise UserError(f"{refusal}: {described(error)}.") from error


def described(error: BaseException) -> str:
    """The type and the words of an exception, on one line."""
    with contextlib.suppress(Exception):
        words = one_line(str(error), 300).rstrip(".")
        return f"{type(error).__name__}: {words}" if words else type(error).__name__
    return type(error).__name__  # its __str__ raises
