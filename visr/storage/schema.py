"""Records from untrusted JSON and back: a dataclass's type hints and bounds say what a file may hold."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar

import numpy as np

from visr import config as configuration
from visr.config import Bound, FinetuneConfig, RunConfig
from visr.errors import UserError, short_repr
from visr.strict_json import encodable

Record = TypeVar("Record")

Count = Annotated[int, Bound(0)]
NULL_IS_INF = "null stands for infinity"
"""Metadata of numbers and arrays that may be infinite: JSON has no infinity."""
NOT_STORED = {"is_stored": False}
"""Metadata of fields that live only as long as the process."""
ONLY_IF_CHANGED = {"is_default_stored": False}
"""Metadata of fields that are left out of a file while they have their default."""
_SETTINGS = {RunConfig: configuration.from_dict, FinetuneConfig: configuration.finetune_settings}


@contextlib.contextmanager
def refusing(where: str, remedy: str) -> Iterator[None]:
    """Turn what does not fit into one sentence: `where` (reason); `remedy`."""
    try:
        yield
    except (ValueError, OverflowError, UserError) as error:
        raise UserError(f"{where} ({str(error).rstrip('.')}); {remedy}.") from None


def read(cls: type[Record], content: Any, name: str = "it") -> Record:
    """A record from JSON content, or a ValueError that names the first misfit; other keys are ignored.

    A missing key takes the field's default. `cls.FORMAT`, if there is one, must be the content's format.
    """
    content = _object(content, name)
    if (known := getattr(cls, "FORMAT", None)) is not None and content.get("format") != known:
        raise ValueError(
            f"its format is {short_repr(content.get('format'))} and this visr reads {known}"
        )
    hints, values = _hints(cls), {}
    for field in _stored(cls):
        if field.name in content:
            values[field.name] = convert(content[field.name], hints[field.name], field.name)
        elif _is_required(field):
            raise ValueError(f"{field.name} is missing")
    return cls(**values)


def to_dict(record: Any) -> dict[str, Any]:
    """Ready for JSON: the keys are the fields, in their order, after `format`."""
    start = {"format": record.FORMAT} if hasattr(record, "FORMAT") else {}
    hints = _hints(type(record))
    fields = {
        f.name: getattr(record, f.name) for f in _stored(record) if not _is_left_out(record, f)
    }
    return start | {k: _plain(v, NULL_IS_INF in _metadata(hints[k])) for k, v in fields.items()}


def convert(value: Any, hint: Any, name: str) -> Any:
    """A JSON value as the type that `hint` describes, or a ValueError that names it."""
    metadata = _metadata(hint)
    kind = typing.get_args(hint)[0] if metadata else hint
    bound = next((m for m in metadata if isinstance(m, Bound)), Bound())
    if value is None and kind is float and NULL_IS_INF in metadata:
        return math.inf
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _convert_union(value, typing.get_args(kind), name)
    if origin is np.ndarray:
        return _array(value, kind, bound, NULL_IS_INF in metadata, name)
    if origin is tuple:
        parts = _list(value, bound, name)
        return tuple(convert(part, typing.get_args(kind)[0], name) for part in parts)
    if origin is dict:
        parts = _object(value, name).items()
        return {k: convert(v, typing.get_args(kind)[1], k) for k, v in parts}
    if kind in _SETTINGS:
        return _SETTINGS[kind](_object(value, name))
    if dataclasses.is_dataclass(kind):
        return read(typing.cast(type, kind), value, name)
    return value if kind is Any else _simple(value, kind, bound, name)


def _convert_union(value: Any, kinds: tuple[Any, ...], name: str) -> Any:
    """`X | None`, or one of several dataclasses: the first whose required fields are all there."""
    if value is None and types.NoneType in kinds:
        return None
    others = [kind for kind in kinds if kind is not types.NoneType]
    for kind in others[:-1]:
        required = {f.name for f in dataclasses.fields(kind) if _is_required(f)}
        if isinstance(value, dict) and required <= value.keys():
            return convert(value, kind, name)
    return convert(value, others[-1], name)


def _simple(value: Any, kind: Any, bound: Bound, name: str) -> Any:
    """One of several choices, text, truth or a number."""
    if typing.get_origin(kind) is Literal:
        if value not in typing.get_args(kind):
            raise ValueError(f"{name} is not one of {', '.join(typing.get_args(kind))}")
        return value
    if kind is str:
        if not isinstance(value, str):
            raise ValueError(f"{name} is not text")
        _check_length(value, bound, name)
        return encodable(value)
    if kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"{name} is neither true nor false")
        return value
    if not _is_number(value, kind) or not bound.contains(value):
        words = "a whole number" if kind is int else "a finite number"
        raise ValueError(f"{name} is not {words}{_words(bound)}")
    return kind(value)


def _array(value: Any, hint: Any, bound: Bound, is_null_inf: bool, name: str) -> np.ndarray:
    """A list of numbers, [N] with N > 0."""
    dtype = typing.get_args(typing.get_args(hint)[1])[0]
    kind = int if issubclass(dtype, np.integer) else float

    def fits(x: Any) -> bool:
        return is_null_inf if x is None else _is_number(x, kind) and bound.contains(x)

    if not isinstance(value, list) or not value or not all(map(fits, value)):
        words = "whole" if kind is int else "finite"
        raise ValueError(f"{name} is not a list of {words} numbers{_words(bound)}")
    return np.asarray([math.inf if x is None else x for x in value], dtype=dtype)


def _object(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is not a JSON object")
    return value


def _list(value: Any, bound: Bound, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{name} is not a list")
    _check_length(value, bound, name)
    return value


def _check_length(value: str | list[Any], bound: Bound, name: str) -> None:
    if not bound.contains(len(value)):
        raise ValueError(f"the length of {name} is not a number{_words(bound)}")


def _words(bound: Bound) -> str:
    """A bound in words, to follow "is not a number"."""
    if bound.high == math.inf:
        return "" if bound.low == -math.inf else f" of at least {bound.low:g}"
    if bound.low in (-math.inf, -bound.high):
        return f" of at most {bound.high:g}"
    return f" from {bound.low:g} to {bound.high:g}"


def _is_number(value: Any, kind: type) -> bool:
    """Whether it is a finite number, and a whole one if `kind` is int."""
    if type(value) is int:  # float() raises for a whole number beyond its range
        return kind is int or abs(value) < 1e300
    return kind is float and isinstance(value, float) and math.isfinite(value)


def _plain(value: Any, is_null_inf: bool) -> Any:
    if dataclasses.is_dataclass(type(value)):
        return dataclasses.asdict(value) if type(value) in _SETTINGS else to_dict(value)
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(part, is_null_inf) for part in value]
    if isinstance(value, dict):
        return {key: _plain(part, is_null_inf) for key, part in value.items()}
    return None if is_null_inf and not math.isfinite(typing.cast(float, value)) else value


def _stored(record: Any) -> list[dataclasses.Field[Any]]:
    return [f for f in dataclasses.fields(record) if f.metadata.get("is_stored", True)]


def _is_left_out(record: Any, field: dataclasses.Field[Any]) -> bool:
    if field.metadata.get("is_default_stored", True):
        return False
    return getattr(record, field.name) == field.default


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls, include_extras=True)
