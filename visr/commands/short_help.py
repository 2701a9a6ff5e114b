"""The first screen of help: the flags that most people use, with the defaults that hold here."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from visr.errors import encodable


def show(
    verb: str, summary: str, example: str, chosen: Any, flags: Sequence[str], others: str
) -> None:
    """Print usage, one example, and `flags` with their defaults in `chosen`, a dataclass of options."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"usage: visr {verb} ENV [flags]\n\n{summary}\n\n  {example}\n")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    known = {name: (value, text) for name, value, text in _fields(chosen)}
    for flag in flags:
        value, text = known[flag]
        table.add_row(f"--{flag.replace('_', '-')}", _shown(value), text)
    console.print(table)
    console.print(f"\n{others}")


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if type(value) is int else encodable(str(value))


def _fields(options: Any) -> Iterator[tuple[str, Any, str]]:
    """Every field of a dataclass and of the dataclasses in it: name, value and help text."""
    texts = _texts(type(options))
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            yield from _fields(value)
        else:
            yield field.name, value, texts.get(field.name, "")


@functools.cache
def _texts(cls: type) -> dict[str, str]:
    """The string that follows each field in the source of a dataclass and of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                assert isinstance(text.value, ast.Constant)
                texts[field.target.id] = " ".join(str(text.value.value).split())
    return texts
