"""Curiosity inside VISR: an intrinsic bonus b that joins the cumulant as b w; one small file per bonus."""

from __future__ import annotations

from visr.agents.bonuses.bonus import Bonus, Surprise
from visr.agents.bonuses.distillation import Distillation
from visr.agents.bonuses.forward import ForwardModel
from visr.agents.bonuses.particles import Particles
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
