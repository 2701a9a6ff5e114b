from __future__ import annotations

import time

import numpy as np
import pytest

from visr.errors import UserError
from visr.inference import expression

ROW, COL = np.divmod(np.arange(6), 3)  # 0 0 0 1 1 1 and 0 1 2 0 1 2
NAMES = {"row": ROW, "col": COL, "height": np.array(2), "width": np.array(3)}


def value(text: str) -> list[float]:
    return expression.evaluate(text, NAMES).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("row", [0, 0, 0, 1, 1, 1]),
        ("  row + col\n", [0, 1, 2, 1, 2, 3]),
        ("2", [2] * 6),
        ("-row", [0, 0, 0, -1, -1, -1]),
        ("+col - 1.5", [-1.5, -0.5, 0.5] * 2),
        ("row * width + col", [0, 1, 2, 3, 4, 5]),
        ("col / 2", [0, 0.5, 1] * 2),
        ("col // 2", [0, 0, 1] * 2),
        ("(col - 1) % 3", [2, 0, 1] * 2),
        ("col ** 2", [0, 1, 4] * 2),
        ("2 ** -col", [1, 0.5, 0.25] * 2),
        ("-2 ** 2", [-4] * 6),
        ("col > 1", [0, 0, 1] * 2),
        ("0 < col < 2", [0, 1, 0] * 2),
        ("0 <= row == col != 2", [1, 0, 0, 0, 1, 0]),
        ("row == 1 and col == 2", [0, 0, 0, 0, 0, 1]),
        ("row == 1 or col >= 2", [0, 0, 1, 1, 1, 1]),
        ("not row", [1, 1, 1, 0, 0, 0]),
        ("row and col", [0, 0, 0, 0, 1, 2]),
        ("row or 5", [5, 5, 5, 1, 1, 1]),
        ("col and row and 7", [0, 0, 0, 0, 7, 7]),
        ("col if row else 9", [9, 9, 9, 0, 1, 2]),
        ("1 / col if col > 0 else 4", [4, 1, 0.5] * 2),
        ("where(col > 0, log(col), -1) * 0 + col", [0, 1, 2] * 2),
        ("abs(row - 1)", [1, 1, 1, 0, 0, 0]),
        ("min(row, col, 1)", [0, 0, 0, 0, 1, 1]),
        ("max(row, col)", [0, 1, 2, 1, 1, 2]),
        ("sign(col - 1)", [-1, 0, 1] * 2),
        ("floor(col / 2 + 0.5)", [0, 1, 1] * 2),
        ("sqrt(col * col)", [0, 1, 2] * 2),
        ("log(exp(0)) + cos(0) + sin(0)", [1] * 6),
        ("0x10 + 1_0 + 1e1", [36] * 6),
    ],
)
def test_an_expression_is_worth_this(text: str, expected: list[float]):
    assert value(text) == expected


def test_the_result_is_float64_in_the_shape_of_the_names_and_owned_by_the_caller():
    grid = {"row": ROW.reshape(2, 3), "col": COL.reshape(2, 3)}
    result = expression.evaluate("pi", grid)
    assert result.shape == (2, 3)
    assert result.dtype == np.float64
    assert (result == np.pi).all()
    for text in ("pi", "row"):
        expression.evaluate(text, grid)[0, 0] = 5
    assert ROW[0] == 0


def test_truth_follows_python_for_every_pair_of_numbers():
    numbers = np.array([-1.0, 0.0, 2.0])
    a, b = (grid.ravel() for grid in np.meshgrid(numbers, numbers))
    for text in ("a and b", "a or b", "not a", "a < b", "a if b else 7", "not a or b and a"):
        expected = [
            float({
                "a and b": x and y,
                "a or b": x or y,
                "not a": not x,
                "a < b": x < y,
                "a if b else 7": x if y else 7,
                "not a or b and a": not x or (y and x),
            }[text])
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]  # fmt: skip
        assert expression.evaluate(text, {"a": a, "b": b}).tolist() == expected


ESCAPES = [
    "__import__('os').system('true')",
    "__import__",
    "__builtins__",
    "row.__class__",
    "row.__class__.__mro__[-1].__subclasses__()",
    "().__class__.__base__.__subclasses__()",
    "(1).__class__",
    "abs.__globals__",
    "abs.__self__",
    "row.tofile('/tmp/visr-escape')",
    "row.dump('/tmp/visr-escape')",
    "eval('1')",
    "exec('1')",
    "compile('1', '', 'eval')",
    "open('/etc/passwd')",
    "print(row)",
    "input()",
    "breakpoint()",
    "globals()",
    "locals()",
    "vars()",
    "getattr(row, 'shape')",
    "type(row)",
    "lambda: 1",
    "(lambda: row)()",
    "[row for row in (1,)][0]",
    "{row: 1 for row in (1,)}",
    "{1, 2}",
    "sum(x for x in (1, 2))",
    "(x := row)",
    "abs(x := row)",
    "row[0]",
    "row[row.argmax()]",
    "[row]",
    "(row, col)",
    "{'a': row}",
    "'row'",
    "b'row'",
    "f'{row}'",
    "f'{row.__class__}'",
    "abs(*row)",
    "abs(**row)",
    "where(c=1, a=2, b=3)",
    "max(row, col, key=abs)",
    "abs(abs)",
    "(abs if row else sqrt)(4)",
    "abs(1)(2)",
    "await row",
    "(yield row)",
    "row @ col",
    "row & 1",
    "row | 1",
    "row ^ 1",
    "~row",
    "1 << 2",
    "8 >> row",
    "row is col",
    "row in (0, 1)",
    "row not in (0, 1)",
    "1j",
    "...",
    "None",
    "True",
    "nan",
    "inf",
    "np",
    "numpy.load('x.npy')",
    "os",
    "ｅｖａｌ('1')",
    "import os",
    "row = 3",
    "row; col",
    "row\ncol",
    "del row",
    "assert row",
    "return row",
    "row\x00",
    "row + \ud800",
    "\\",
    "`row`",
    "row?col",
    "$row",
    "#",
    "row if col",
    "row +",
    "(row",
    "row)",
    "abs(",
    "1or",
    "if row: col",
    # format strings, text that grows, text that is read as code
    "'{0.__class__}'.format(row)",
    "'%s' % row",
    "'a' * 10**9",
    "f'{row!r:>{col}}'",
    "f'{__import__(\"os\")}'",
    "'row' 'col'",
    "str(row)",
    "repr(row)",
    "chr(111) + chr(115)",
    "int('9' * 5000)",
    "bytes(10**9)",
    # dunders by other roads
    "row.__getattribute__('T')",
    "abs.__call__(row)",
    "row.__array_interface__",
    "row.__reduce__()",
    "[].__class__.__mro__[1].__subclasses__()[40]",
    "{}.__class__.__base__",
    "''.__class__",
    "(lambda f: f(f))(lambda f: f(f))",
    "type('X', (), {})",
    "getattr(getattr(row, 'T'), 'dtype')",
    "setattr(row, 'shape', 3)",
    "hasattr(row, 'T')",
    "delattr(row, 'T')",
    "object.__subclasses__()",
    "__builtins__['eval']",
    "__loader__",
    "__spec__",
    "vars()['abs']",
    "dir()",
    "exit()",
    "quit()",
    "help()",
    # numpy's own
    "row.ctypes.data",
    "row.base",
    "row.dtype.type",
    "row.astype(object)",
    "row.tobytes()",
    "row.setflags(1)",
    "row.view('O')",
    "np.load('x.npy', allow_pickle=True)",
    "fromfile('/etc/passwd')",
    "memmap('/etc/passwd')",
    # look-alikes: Python reads names in their NFKC form
    "𝐞𝐱𝐞𝐜('1')",
    "__𝒾𝓂𝓅𝑜𝓇𝓉__('os')",
    "ｏｐｅｎ('x')",
    "row․real",
    "ªbs.__self__",
    # comprehensions, generators, unpacking, slices
    "[*row]",
    "{**row}",
    "(*row, 1)",
    "row[::-1]",
    "row[...]",
    "[[x for x in row] for y in row]",
    "{x: x for x in row}",
    "max(x for x in (1, 2))",
    "(x async for x in row)",
    "min(*(1, 2))",
    "abs(row for row in row)",
    "print((yield))",
]


@pytest.mark.parametrize("text", ESCAPES)
def test_an_expression_cannot_reach_python(text: str):
    with pytest.raises(UserError) as refusal:
        value(text)
    sentence = str(refusal.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 400


HUGE = [
    "9**9**9",
    "9**9**9**9**9",
    "2**(10**9)",
    "(row + 2)**1000",
    "10**200",
    "1e999",
    "-1e999",
    "1e999 - 1e999",
    "1e13",
    "9" * 400,
    "0x" + "f" * 400,
    "1<<99999999",
    "exp(1000)",
    "exp(exp(exp(9)))",
    "(10**100)**100",
    "1 / row",
    "0 / 0",
    "row % 0",
    "row // 0",
    "log(0)",
    "log(-1)",
    "sqrt(-1)",
    "(-1) ** 0.5",
    "0 ** -1",
    "(" * 400 + "row",
    "+" * 40 + "1",
    "-" * 490 + "1",
    "not " * 120 + "1",
    "+".join(["row"] * 100),
    "**".join(["1"] * 100),
    "abs(" * 90 + "1" + ")" * 90,
    "row" + " " * 498,
    "row + " * 100_000 + "col",
    "",
    "   ",
]


@pytest.mark.parametrize("text", HUGE, ids=range(len(HUGE)))
def test_what_is_too_large_too_deep_or_not_finite_is_refused_at_once(text: str):
    begin = time.perf_counter()
    with pytest.raises(UserError) as refusal:
        value(text)
    assert time.perf_counter() - begin < 2
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("text", "piece"),
    [
        ("row + colour", "'colour' is unknown: known are pi, row, col, height, width, abs()"),
        ("row + sqrt", "'sqrt' is a function: write sqrt(...)"),
        ("tan(row)", "'tan' is not a known function: known are abs, sqrt"),
        ("row.shape + 1", "'row.shape' is not allowed"),
        ("1 + row[0]", "'row[0]' is not allowed: row is one number, so write row"),
        ("row + 'a'", "\"'a'\" is not a real number"),
        ("abs(row, col)", "'abs(row, col)' has 2 arguments, but abs takes 1"),
        ("min(row)", "'min(row)' has 1 arguments, but min takes at least 2"),
        ("2 ** 101", "'101' is too large an exponent"),
        ("row << 2", "'row << 2' uses an operator not allowed"),
        ("1 + 1e13", "'1e13' is too large"),
        ("row + * 2", "invalid syntax at character 7"),
        ("row +", "invalid syntax at"),
        ("1 / row", "'1 / row' is not a finite number everywhere"),
        ("-" * 40 + "1", "nested more than 30 deep"),
        ("row" * 200, "600 characters long, but at most 500"),
    ],
)
def test_a_refusal_names_the_piece_that_is_wrong(text: str, piece: str):
    with pytest.raises(UserError) as refusal:
        value(text)
    assert piece in str(refusal.value)


def test_the_limits_themselves_are_allowed():
    assert value("+".join(["1"] * expression.MAX_DEPTH)) == [30.0] * 6
    assert value("row" + " " * 497) == ROW.tolist()
    assert value("1 ** 100 + 1e12")[0] == 1e12 + 1
    assert value("(" * 150 + "row" + ")" * 150) == ROW.tolist()


def test_an_expression_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(expression, "MAX_SECONDS", -1.0)
    with pytest.raises(UserError, match="takes more than"):
        expression.evaluate("row + 1", {"row": np.arange(3)})
