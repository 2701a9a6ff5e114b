"""A small arithmetic language over arrays, read with Python's grammar and evaluated by our own interpreter.

Only the constructs listed here exist; the text is never compiled to code. Everything is float64,
so that no number can grow without bound; a truth value is 1.0 or 0.0.
"""

from __future__ import annotations

import ast
import functools
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError

FloatArray = NDArray[np.float64]
Value = float | FloatArray | list[FloatArray]
"""Of a name: a number, one for every element, or several of them to be indexed."""

MAX_LENGTH = 500
MAX_DEPTH = 30
MAX_EXPONENT = 100.0
MAX_NUMBER = 1e12
MAX_SECONDS = 5.0

_CONSTANTS = {"pi": np.pi}

_BINARY: dict[type[ast.operator], Callable[..., FloatArray]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_UNARY: dict[type[ast.unaryop], Callable[..., NDArray]] = {
    ast.USub: np.negative,
    ast.UAdd: np.positive,
    ast.Not: np.logical_not,
}
_COMPARE: dict[type[ast.cmpop], Callable[..., NDArray]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}


def _where(condition: FloatArray, yes: FloatArray, no: FloatArray) -> FloatArray:
    return np.where(condition != 0, yes, no)


def _fold(function: Callable[..., FloatArray]) -> Callable[..., FloatArray]:
    return lambda *values: functools.reduce(function, values)


_MANY = MAX_LENGTH
_FUNCTIONS: dict[str, tuple[Callable[..., FloatArray], int, int]] = {
    "abs": (np.abs, 1, 1),
    "sqrt": (np.sqrt, 1, 1),
    "exp": (np.exp, 1, 1),
    "log": (np.log, 1, 1),
    "sin": (np.sin, 1, 1),
    "cos": (np.cos, 1, 1),
    "floor": (np.floor, 1, 1),
    "sign": (np.sign, 1, 1),
    "min": (_fold(np.minimum), 2, _MANY),
    "max": (_fold(np.maximum), 2, _MANY),
    "where": (_where, 3, 3),
}
"""name -> (function, fewest arguments, most arguments)"""


def evaluate(text: str, names: Mapping[str, np.ndarray | Sequence[np.ndarray]]) -> FloatArray:
    """The value of `text` for every element of the named arrays, in their common shape.

    A name with a list of arrays is indexed: `pos[0]`.
    """
    tree = _parse(text)
    scope: dict[str, Value] = {name: _numbers(value) for name, value in names.items()}
    shape = np.broadcast_shapes(*(np.shape(v) for v in scope.values() if not isinstance(v, list)))
    with np.errstate(all="ignore"):  # 1/row may be infinite where a condition discards it
        value = _Evaluator(text, {**_CONSTANTS, **scope}).value(tree, depth=1)
    if not np.isfinite(value).all():
        raise UserError(
            f"The expression {short(text)!r} is not a finite number everywhere "
            "(a division by zero, a logarithm or root of a negative number, or too large)."
        )
    return np.array(np.broadcast_to(value, shape), dtype=np.float64)


def check(text: str, names: Mapping[str, np.ndarray | Sequence[np.ndarray]]) -> None:
    """Refuse an expression that cannot be read or has unknown names, whatever its values are."""
    scope: dict[str, Value] = {name: _numbers(value) for name, value in names.items()}
    with np.errstate(all="ignore"):
        _Evaluator(text, {**_CONSTANTS, **scope}).value(_parse(text), depth=1)


def _numbers(value: np.ndarray | Sequence[np.ndarray]) -> FloatArray | list[FloatArray]:
    if isinstance(value, list | tuple):
        return [np.asarray(part, dtype=np.float64) for part in value]
    return np.asarray(value, dtype=np.float64)


_OTHER_LANGUAGES = {
    r"&&?": "and",
    r"\|\|?": "or",
    r"(?<![<>=!])=(?!=)": "==",
    r"!(?!=)": "not",
    r"\^": "**",
}
"""Operators of other languages, and how they are written here."""


def _refuse_other_operators(text: str) -> None:
    """Name the right word for an operator that means something else here, or nothing."""
    for pattern, word in _OTHER_LANGUAGES.items():
        if found := re.search(pattern, text):
            raise UserError(
                f"In the expression {short(text)!r}, {found[0]!r} is not an operator: write {word!r}."
            )


def _parse(text: str) -> ast.expr:
    if not text.strip():
        raise UserError("The expression is empty: write one such as row + col.")
    if len(text) > MAX_LENGTH:
        raise UserError(
            f"The expression {short(text)!r} is {len(text)} characters long, but at most "
            f"{MAX_LENGTH} are allowed."
        )
    _refuse_other_operators(text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as for 1or 2: legal, if not pretty
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = str(error)
        if isinstance(error, SyntaxError):
            place = f"character {error.offset}" if error.offset else "its end"
            reason = f"{error.msg} at {place}"
        raise UserError(f"Cannot read the expression {short(text)!r}: {reason}.") from error


def short(text: str) -> str:
    """At most 60 characters of `text`, for a sentence about it."""
    return text if len(text) <= 60 else text[:57] + "..."


class _Evaluator:
    """Evaluates one parsed expression."""

    def __init__(self, text: str, scope: Mapping[str, Value]) -> None:
        self._text = text.strip()
        self._scope = scope
        self._deadline = time.monotonic() + MAX_SECONDS

    def value(self, node: ast.AST, depth: int) -> FloatArray:
        if depth > MAX_DEPTH:
            raise UserError(
                f"The expression {short(self._text)!r} is nested more than {MAX_DEPTH} deep: "
                "simplify it, or give the reward as a .npy or .csv file."
            )
        if time.monotonic() > self._deadline:
            raise UserError(
                f"The expression {short(self._text)!r} takes more than {MAX_SECONDS:g} seconds: simplify it."
            )
        match node:
            case ast.Constant():
                value = self._constant(node)
            case ast.Name():
                value = self._name(node)
            case ast.Subscript():
                value = self._item(node)
            case ast.BinOp():
                value = self._binary(node, depth + 1)
            case ast.UnaryOp():
                value = self._unary(node, depth + 1)
            case ast.BoolOp():
                value = self._logic(node, depth + 1)
            case ast.Compare():
                value = self._comparison(node, depth + 1)
            case ast.IfExp():
                parts = (node.test, node.body, node.orelse)
                value = _where(*(self.value(part, depth + 1) for part in parts))
            case ast.Call():
                value = self._call(node, depth + 1)
            case ast.Attribute():
                files = "files of rewards end in .npz, on the grid also in .npy or .csv"
                self._refuse(node, f"is not allowed: {files}")
            case _:
                self._refuse(node, "is not allowed")
        return np.asarray(value, dtype=np.float64)

    def _constant(self, node: ast.Constant) -> float:
        number = node.value
        if isinstance(number, bool) or not isinstance(number, int | float):
            self._refuse(node, "is not a real number")
        if not abs(number) <= MAX_NUMBER:
            self._refuse(node, f"is too large: numbers go up to {MAX_NUMBER:.0e}")
        return float(number)

    def _name(self, node: ast.Name) -> float | FloatArray:
        if node.id in self._scope:
            value = self._scope[node.id]
            if isinstance(value, list):
                self._refuse(node, f"has {len(value)} numbers: write {node.id}[0]")
            return value
        if node.id in _FUNCTIONS:
            self._refuse(node, f"is a function: write {node.id}(...)")
        names = [f"{n}[0]" if isinstance(v, list) else n for n, v in self._scope.items()]
        known = ", ".join([*names, *(f"{name}()" for name in _FUNCTIONS)])
        self._refuse(node, f"is unknown: known are {known}")

    def _item(self, node: ast.Subscript) -> FloatArray:
        """One number of a field that has several: pos[0]."""
        name = node.value.id if isinstance(node.value, ast.Name) else ""
        values = self._scope.get(name)
        if not isinstance(values, list):
            if values is not None:
                self._refuse(node, f"is not allowed: {name} is one number, so write {name}")
            self._refuse(node, "is not allowed: only fields with several numbers have an index")
        index = node.slice.value if isinstance(node.slice, ast.Constant) else None
        if type(index) is not int or index >= len(values):
            self._refuse(node, f"needs a whole number from 0 to {len(values) - 1} as its index")
        return values[index]

    def _binary(self, node: ast.BinOp, depth: int) -> FloatArray:
        operate = _BINARY.get(type(node.op)) or self._refuse(node, "uses an operator not allowed")
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        if isinstance(node.op, ast.Pow) and not (np.abs(right) <= MAX_EXPONENT).all():
            self._refuse(node.right, f"is too large an exponent: at most {MAX_EXPONENT:.0f}")
        return operate(left, right)

    def _unary(self, node: ast.UnaryOp, depth: int) -> NDArray:
        operate = _UNARY.get(type(node.op)) or self._refuse(node, "uses an operator not allowed")
        return operate(self.value(node.operand, depth))

    def _logic(self, node: ast.BoolOp, depth: int) -> FloatArray:
        first, *rest = (self.value(part, depth) for part in node.values)
        for other in rest:  # as in Python: the operand that decided, not its truth value
            both = isinstance(node.op, ast.And)
            first = _where(first, other, first) if both else _where(first, first, other)
        return first

    def _comparison(self, node: ast.Compare, depth: int) -> NDArray:
        result: NDArray = np.array(True)
        left = self.value(node.left, depth)
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            compare = _COMPARE.get(type(op)) or self._refuse(node, "uses an operator not allowed")
            right = self.value(comparator, depth)
            result = np.logical_and(result, compare(left, right))
            left = right
        return result

    def _call(self, node: ast.Call, depth: int) -> FloatArray:
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
            known = ", ".join(_FUNCTIONS)
            self._refuse(node.func, f"is not a known function: known are {known}")
        if node.keywords:
            self._refuse(node, "names an argument, which no function here takes")
        function, fewest, most = _FUNCTIONS[node.func.id]
        if not fewest <= len(node.args) <= most:
            wanted = f"{fewest}" if fewest == most else f"at least {fewest}"
            self._refuse(node, f"has {len(node.args)} arguments, but {node.func.id} takes {wanted}")
        return function(*(self.value(argument, depth) for argument in node.args))

    def _refuse(self, node: ast.AST, why: str) -> NoReturn:
        piece = ast.get_source_segment(self._text, node) or type(node).__name__
        raise UserError(f"In the expression {short(self._text)!r}, {short(piece)!r} {why}.")
