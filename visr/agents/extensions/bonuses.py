"""Curiosity inside VISR: an intrinsic bonus b that joins the cumulant as b w; one small file per bonus."""

from __future__ import annotations

from visr.agents.extensions.bonus import Bonus, Surprise
from visr.agents.extensions.forward import ForwardModel
from visr.agents.extensions.particles import Particles
from visr.agents.extensions.rnd import Distillation
from visr.config import AgentConfig
from visr.types import EnvSpec

__all__ = ["Bonus", "Surprise", "build"]


def build(config: AgentConfig, spec: EnvSpec) -> Bonus | None:
    """The bonus of that name, or none."""
    match config.bonus:
        case "rnd":
            return Distillation(config, spec)
        case "particles":
            return Particles(config)
        case "forward":
            return ForwardModel(config, spec)
    return None
