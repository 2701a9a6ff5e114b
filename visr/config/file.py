"""Settings in a file: TOML to edit, or the config.json of a run."""

from __future__ import annotations

import contextlib
import json
import tomllib
from pathlib import Path
from typing import Any

from visr import strict_json
from visr.config.fields import SECTIONS, RunConfig
from visr.config.load import field_names, to_dict, whole_number
from visr.errors import UserError

_LARGEST = 2**20
"""Bytes of a file of settings."""
_MOST_DOTS = 100
"""In a line: no setting is nested deeper than its section."""


def read(path: str | Path) -> dict[str, Any]:
    """The settings of a TOML or JSON file by name, in sections or without; `env` among them."""
    path = Path(path)
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise ValueError("it is a pipe or a device")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)  # it may be sparse, and claim terabytes
        if len(content) > _LARGEST:
            raise ValueError(f"it is larger than {_LARGEST:,} bytes")
        is_json = path.suffix.lower() == ".json"
        found = strict_json.parse(content) if is_json else _toml(content.decode())
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}; check its name.") from None
    except (ValueError, RecursionError) as error:  # both parsers raise kinds of ValueError
        raise UserError(f"{path} is not a file of settings ({error}).") from None
    if not isinstance(found, dict):
        raise UserError(
            f"{path} is not a file of settings; write lines such as num_steps = 1000000."
        )
    if isinstance(found.get("config"), dict):  # a run's config.json
        found = found["config"]
    fields: dict[str, Any] = {}
    for name, value in found.items():
        if name in SECTIONS and isinstance(value, dict):
            fields |= value
        else:
            fields[name] = value
    for name in field_names().keys() & fields.keys():
        if isinstance(fields[name], str) and name in _counts():
            with contextlib.suppress(ValueError):
                fields[name] = whole_number(fields[name])
    if unknown := sorted(set(fields) - set(field_names())):
        raise UserError(
            f"{path} has a setting `{unknown[0]}`, which does not exist; `visr pretrain --help-all` lists "
            "all of them."
        )
    return fields


def _toml(text: str) -> dict[str, Any]:
    """The content of a TOML text; tomllib takes the square of the parts of a key in memory."""
    if max((line.count(".") for line in text.splitlines()), default=0) > _MOST_DOTS:
        raise ValueError(f"a line has more than {_MOST_DOTS} dots")
    return tomllib.loads(text)


def _counts() -> set[str]:
    """The settings that are whole numbers."""
    sections = (getattr(RunConfig(), name) for name in SECTIONS)
    return {k for section in sections for k, v in vars(section).items() if type(v) is int}


def to_toml(config: RunConfig) -> str:
    """All settings as TOML, one section after another."""
    content = to_dict(config)
    lines = [f"env = {json.dumps(content.pop('env'))}"]
    for section, fields in content.items():
        lines += ["", f"[{section}]"]
        lines += [
            f"{name} = {_value(value)}" for name, value in fields.items() if value is not None
        ]
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    """A number, a truth value, a text or a list of them as TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)
