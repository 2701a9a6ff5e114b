"""Configurations made, changed, written and read; whatever comes out is valid."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import typing
from collections.abc import Iterable
from typing import Any

from visr.config import bounds, check
from visr.config.fields import (
    BASELINES,
    GRID,
    SECTIONS,
    AgentConfig,
    AtariConfig,
    ClusterConfig,
    FinetuneConfig,
    GridConfig,
    GymConfig,
    InferenceConfig,
    MinAtarConfig,
    RunConfig,
    TrainingConfig,
)
from visr.errors import UserError


def field_names() -> dict[str, str]:
    """Every settable field and the section it lives in; names are unique across sections."""
    names = {"env": ""}
    for section in SECTIONS:
        names.update({f.name: section for f in dataclasses.fields(_section_class(section))})
    return names


def replace(config: RunConfig, **fields: Any) -> RunConfig:
    """A copy of `config` with the named fields changed, wherever they live; then validated."""
    known = field_names()
    changes: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        if name not in known:
            raise UserError(_unknown_field(name, known))
        changes.setdefault(known[name], {})[name] = tuple(value) if type(value) is list else value
    top: dict[str, Any] = changes.pop("", {})
    for section, values in changes.items():
        top[section] = dataclasses.replace(getattr(config, section), **values)
    return validated(dataclasses.replace(config, **top))


def validated(config: RunConfig) -> RunConfig:
    """`config` itself, or a UserError that names the first field that cannot be."""
    bounds.check_env(config.env)
    for section in SECTIONS:
        _check_fields(getattr(config, section))
    check.check(config)
    return config


def _check_fields(part: Any) -> None:
    hints = _type_hints(type(part))
    for field in dataclasses.fields(part):
        bounds.check(field.name, getattr(part, field.name), hints[field.name])


def finetune_settings(fields: dict[str, Any]) -> FinetuneConfig:
    """Settings of fine-tuning with these fields changed, or a UserError that names the first misfit."""
    names = {f.name for f in dataclasses.fields(FinetuneConfig)}
    for name in fields:
        if name not in names:
            raise UserError(_unknown_field(name, names, "finetune"))
    settings = FinetuneConfig(**fields)
    _check_fields(settings)
    _refuse_contradictions(settings)
    _refuse_idle(settings)
    return settings


def _refuse_idle(settings: FinetuneConfig) -> None:
    """Settings that would do nothing beside the others."""
    fresh, is_free = settings.from_scratch, settings.free_steps > 0
    idle: dict[str, str] = {}
    if not is_free:
        free = ("free_epsilon", "free_share", "free_updates")
        idle |= dict.fromkeys(free, "without free_steps")
    if fresh and not is_free:
        idle["sweep_steps"] = "with from_scratch and no free_steps"
    else:
        idle["exploration_steps"] = "but from scratch, without free_steps"
    if fresh or is_free:
        idle["gpi_steps"] = "with from_scratch or free_steps"
    for name, where in idle.items():
        value = getattr(settings, name)
        if value != getattr(FinetuneConfig, name):
            raise UserError(f"{name} = {value} does nothing {where}; leave it out.")


def _refuse_contradictions(settings: FinetuneConfig) -> None:
    """Settings that leave no room for others."""
    is_free = settings.free_steps > 0
    most = settings.num_steps if is_free else settings.num_steps - 1
    if settings.sweep_steps > most:
        raise UserError(
            f"sweep_steps = {settings.sweep_steps:,} leave nothing of num_steps = {settings.num_steps:,} to "
            "learn with; give fewer."
        )
    if is_free and settings.free_epsilon < settings.epsilon:
        raise UserError(
            f"free_epsilon = {settings.free_epsilon} is less than epsilon = {settings.epsilon}, the least of "
            "those drawn; give more."
        )


def trainable(config: RunConfig) -> RunConfig:
    """`config`, validated, if there is anything to learn in its world."""
    if config.env == GRID and config.grid.height == config.grid.width == 1:
        raise UserError(
            "A grid of 1 x 1 cells is too small: nothing differs in one cell, so give it a larger "
            "height or width."
        )
    if config.env == GRID and config.agent.algorithm in ("nsq", *BASELINES):
        raise UserError(
            f"{GRID} has no rewards of its own, so {config.agent.algorithm} would learn nothing there; "
            "choose another environment."
        )
    return validated(config)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """Plain nested dictionaries, ready for JSON."""
    return dataclasses.asdict(config)


def from_dict(data: Any) -> RunConfig:
    """The inverse of `to_dict`, trusting nothing: unknown or misfit fields are a UserError.

    A field that is missing was not there yet when the run was made; its default is what was done then.
    """
    if not isinstance(data, dict) or not isinstance(data.get("env"), str):
        raise UserError("The configuration is not an object with an `env`; the run is damaged.")
    if unknown := sorted(set(data) - {"env", *SECTIONS}):
        raise UserError(
            f"The configuration has sections that this version of visr does not know "
            f"({', '.join(unknown)}); use the version that wrote it, or train anew."
        )
    sections: dict[str, Any] = {}
    for section in SECTIONS:
        values, kind = data.get(section, {}), _section_class(section)
        names = {f.name for f in dataclasses.fields(kind)}
        if not isinstance(values, dict) or set(values) - names:
            odd = sorted(set(values) - names) if isinstance(values, dict) else [section]
            raise UserError(
                f"The configuration's section `{section}` does not fit this version of visr "
                f"(see {', '.join(odd)}); use the version that wrote it, or train anew."
            )
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        sections[section] = kind(**values)
    return validated(RunConfig(env=data["env"], **sections))


def _section_class(section: str) -> type:
    return {
        "grid": GridConfig,
        "atari": AtariConfig,
        "minatar": MinAtarConfig,
        "gym": GymConfig,
        "agent": AgentConfig,
        "training": TrainingConfig,
        "inference": InferenceConfig,
        "cluster": ClusterConfig,
    }[section]


@functools.cache
def _type_hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _unknown_field(name: str, known: Iterable[str], verb: str = "pretrain") -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"`visr {verb} --help` lists the fields."
    return f"There is no field `{name}`; {hint}"
