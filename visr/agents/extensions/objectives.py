"""What phi is trained for, and what psi sums: one small file per objective."""

from __future__ import annotations

from visr.agents.extensions.inference import Inference
from visr.agents.extensions.inverse import Inverse
from visr.agents.extensions.laplacian import Laplacian
from visr.agents.extensions.objective import Learnt, Objective
from visr.agents.extensions.wasserstein import Metra
from visr.config import AgentConfig
from visr.types import EnvSpec

__all__ = ["Learnt", "Objective", "build"]


def build(config: AgentConfig, spec: EnvSpec) -> Objective:
    """The objective of that name."""
    match config.objective:
        case "metra":
            return Metra()
        case "inverse":
            return Inverse(config.num_features, spec.num_actions, config.cumulant)
        case "laplacian":
            return Laplacian(config.cumulant)
    return Inference(config.cumulant)
