"""The jinja2 environment of the HTML pages: everything inserted into a template is escaped."""

from __future__ import annotations

import unicodedata
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from visr.report import style

_INVISIBLE = {"Cc", "Cf", "Cs"}  # control and format characters (text direction), lone surrogates


def environment(*packages: str) -> Environment:
    """Templates in `templates/` of these packages, then those of visr.report."""
    pages = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in (*packages, "visr.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters |= {
        "number": style.number,
        "score": style.score,
        "plus_minus": style.plus_minus,
        "thousands": "{:,}".format,
        "count": count,
    }
    pages.globals["zip"] = zip
    return pages


def visible(value: Any) -> Any:
    """Replace invisible characters of inserted text, so that a name shows all that it contains."""
    if isinstance(value, Markup):
        return value
    spaced = (" " if c.isspace() else c for c in str(value))
    return "".join("\ufffd" if unicodedata.category(c) in _INVISIBLE else c for c in spaced)


def count(number: int, thing: str) -> str:
    """`3 episodes`, `1 episode`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
