"""Configurations made, changed, written and read; every result is validated."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from visr.config import check
from visr.config.fields import (
    REPLAY_LEARNERS,
    SECTIONS,
    AgentConfig,
    RunConfig,
)
from visr.config.replay import ReplayConfig
from visr.errors import UserError, did_you_mean, short_repr

RETIRED = {"objective": "inverse", "bonus": "forward"}
"""Choices that older versions had; a report shows such runs, and everything else refuses them."""


def field_names() -> dict[str, str]:
    """Every setting and the section it belongs to; names are unique across sections."""
    default = RunConfig()
    sections = {name: dataclasses.fields(getattr(default, name)) for name in SECTIONS}
    return {"env": ""} | {f.name: name for name, fields in sections.items() for f in fields}


def replace(config: RunConfig, **fields: Any) -> RunConfig:
    """A copy of `config` with the named settings changed, in whichever section they are."""
    known = field_names()
    changes: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        if name not in known:
            raise UserError(unknown_field(name, known))
        section = getattr(config, known[name]) if known[name] else config
        changes.setdefault(known[name], {})[name] = plain(value, getattr(section, name))
    top: dict[str, Any] = changes.pop("", {})
    for section, values in changes.items():
        top[section] = dataclasses.replace(getattr(config, section), **values)
    return check.validated(dataclasses.replace(config, **top))


def plain(value: Any, before: Any) -> Any:
    """A numpy scalar as Python's number, a list as a tuple; 1e5 may stand for a whole number."""
    with contextlib.suppress(
        Exception
    ):  # an object of the user's; the check that follows refuses it
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            value = value.item()
    if type(before) is int and isinstance(value, float) and abs(value) < 2**53:
        return int(value) if value.is_integer() else value
    return tuple(value) if type(value) is list else value


_UNITS = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}


def whole_number(text: str) -> int:
    """1000, 1_000, 1e5, 100k or 2.5M as a whole number; anything else is a ValueError."""
    match = re.fullmatch(r"([-+]?[\d_]+(?:\.\d+)?(?:[eE]\+?\d{1,2})?)([kKMG]?)", text.strip())
    if match is None:
        raise ValueError(
            f"{short_repr(text)} is not a whole number, such as 20000, 1e5, 100k or 2M"
        )
    with contextlib.suppress(ValueError):
        return int(match[1]) * _UNITS[match[2]]
    value = Fraction(match[1].replace("_", "")) * _UNITS[match[2]]
    if value.denominator != 1:
        raise ValueError(f"{short_repr(text)} is not a whole number")
    return int(value)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """Plain nested dictionaries, ready for JSON; settings of the replay learner only where they matter."""
    content = dataclasses.asdict(config)
    if config.agent.algorithm not in REPLAY_LEARNERS and config.replay == ReplayConfig():
        del content["replay"]
    return content


def flags(chosen: Any, default: Any) -> list[str]:
    """Flags for the fields of a dataclass that differ from the default."""
    flags = []
    for name, value in vars(chosen).items():
        flag = name.replace("_", "-")
        if value == getattr(default, name):
            continue
        if isinstance(value, bool):
            flags.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            flags += [f"--{flag}", *map(str, value if isinstance(value, tuple) else (value,))]
    return flags


def all_flags(config: RunConfig, base: RunConfig) -> list[str]:
    """Flags for all settings in which two configurations differ; the environment is no flag."""
    sections = ((getattr(config, name), getattr(base, name)) for name in SECTIONS)
    return [word for chosen, default in sections for word in flags(chosen, default)]


def from_dict(data: Any, allow_retired: bool = False) -> RunConfig:
    """The inverse of `to_dict` for untrusted content: unknown or wrong fields are a UserError.

    A missing field did not exist yet when the run was made; its default is what was done then.
    `allow_retired` accepts choices of older versions, which no agent of this version can be made from.
    """
    if not isinstance(data, dict) or not isinstance(data.get("env"), str):
        raise UserError("The configuration is not an object with an `env`; the run is damaged.")
    if unknown := sorted(set(data) - {"env", *SECTIONS}):
        raise UserError(
            f"The configuration has sections that this version of visr does not know "
            f"({', '.join(unknown)}); use the version that wrote it, or train again."
        )
    default = RunConfig()
    sections = {
        name: _section(name, type(getattr(default, name)), data.get(name, {})) for name in SECTIONS
    }
    config = RunConfig(env=data["env"], **sections)
    retired = [name for name, choice in RETIRED.items() if getattr(config.agent, name) == choice]
    if retired and not allow_retired:
        raise UserError(
            f"{retired[0]} = {RETIRED[retired[0]]!r} was removed from visr; use the version that wrote it, "
            "or train again."
        )
    current = {name: getattr(AgentConfig, name) for name in retired}
    check.validated(dataclasses.replace(config, agent=dataclasses.replace(config.agent, **current)))
    return config


def _section(name: str, kind: type, values: Any) -> Any:
    known = {f.name for f in dataclasses.fields(kind)}
    if not isinstance(values, dict) or set(values) - known:
        odd = sorted(set(values) - known) if isinstance(values, dict) else [name]
        raise UserError(
            f"The configuration's section `{name}` does not fit this version of visr "
            f"(see {', '.join(odd)}); use the version that wrote it, or train again."
        )
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in values.items()})


def unknown_field(name: str, known: Iterable[str], verb: str = "pretrain") -> str:
    """The sentence for a setting that does not exist."""
    hint = did_you_mean(name, known, f"`visr {verb} --help` lists the fields.", "`{}`")
    return f"There is no field `{name}`; {hint}"
