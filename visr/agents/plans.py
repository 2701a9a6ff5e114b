"""What networks an agent's configuration asks for."""

from __future__ import annotations

from visr.config import AgentConfig
from visr.networks.build import Plan

FREE_LENGTH = ("metra", "laplacian")
"""Objectives under which phi keeps its length; everywhere else it is a unit vector."""


def plan(config: AgentConfig) -> Plan:
    """phi and psi in the words of `networks.build`."""
    return Plan(
        num_features=config.num_features,
        torso=config.torso,
        core=config.core,
        hidden_sizes=config.hidden_sizes,
        centred=config.centred_features,
        normalise=config.normalise_observations,
        unit=config.objective not in FREE_LENGTH,
    )
