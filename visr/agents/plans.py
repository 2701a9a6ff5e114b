"""What networks an agent's configuration asks for."""

from __future__ import annotations

from visr.config import AgentConfig
from visr.networks.build import Plan

FREE_LENGTH = ("metra", "laplacian")
"""VISR's objectives under which phi keeps its length; under the others it is a unit vector."""


def plan(
    config: AgentConfig,
    num_features: int | None = None,
    *,
    centred: bool | None = None,
    unit: bool | None = None,
) -> Plan:
    """phi and psi in the words of `networks.build`, where not said otherwise as VISR has them."""
    return Plan(
        num_features=config.num_features if num_features is None else num_features,
        torso=config.torso,
        core=config.core,
        hidden_sizes=config.hidden_sizes,
        centred=config.centred_features if centred is None else centred,
        normalise=config.normalise_observations,
        head_size=config.head_size,
        unit=config.objective not in FREE_LENGTH if unit is None else unit,
    )
