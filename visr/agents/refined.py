"""An agent whose Q for one task was refined: psi . w + residual(s, a)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor, nn

from visr.agents.base import BehaviourModel, Losses
from visr.config.fields import InferenceConfig
from visr.errors import short_repr
from visr.networks.plane_trunk import PlaneTrunk
from visr.networks.residual_values import RefinedSuccessorFeatures, ResidualValues
from visr.networks.successor import FoldedReadout
from visr.ops.regression import LEAST_SQUARES
from visr.types import EnvSpec, Transitions, Unroll


class RefinedAgent(BehaviourModel):
    """Acts for the task w alone, greedily in psi(s, a, w) . w + residual(s, a); features are the agent's."""

    def __init__(self, agent: BehaviourModel, residual: ResidualValues, w: Tensor) -> None:
        super().__init__(agent.config, agent.spec)
        self.unrefined = agent
        self.psi: RefinedSuccessorFeatures = RefinedSuccessorFeatures(  # pyright: ignore
            agent.psi, residual, w.to(agent.device)
        )
        self.target_psi = None

    @property
    def task_size(self) -> int:
        """d, the length of w."""
        return self.unrefined.task_size

    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """As the agent draws them, [N, d]."""
        return self.unrefined.sample_tasks(num_tasks, rng)

    def sample_policies(self, w: Tensor, rng: Generator | None, gpi: bool | None = None) -> Tensor:
        """w alone: other policies were not refined. [..., d] -> [..., 1, d]"""
        return w.unsqueeze(-2)

    def action_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """psi(s, a, w) . w + residual(s, a)"""
        return self.psi.gpi_values(hidden, policies, readout)

    def losses(self, unroll: Unroll) -> Losses:
        """Refinement has its own updates (`visr.finetuning.refine`)."""
        raise NotImplementedError("a refined agent does not learn from unrolls")

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Nothing learns."""
        return {"psi": []}

    @torch.no_grad()
    def cumulant(self, steps: Transitions) -> Tensor:
        """The agent's features, [N, d]."""
        return self.unrefined.cumulant(steps)

    def task_from(
        self, c: Tensor, weight: Tensor, config: InferenceConfig = LEAST_SQUARES
    ) -> Tensor:
        """As the agent infers it."""
        return self.unrefined.task_from(c, weight, config)


def residual_of(spec: EnvSpec, weights: Mapping[str, NDArray]) -> ResidualValues:
    """The network with these weights; a ValueError if they do not fit."""
    residual = ResidualValues(spec)
    kinds = {name: tensor.numpy().dtype for name, tensor in residual.state_dict().items()}
    for name, array in weights.items():
        if array.dtype != kinds.get(name, array.dtype) or not np.isfinite(array).all():
            raise ValueError(f"{short_repr(name)} holds NaN, infinity or another type of numbers")
    try:
        residual.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in weights.items()})
    except (RuntimeError, TypeError) as error:
        raise ValueError("its weights are those of another network") from error
    if isinstance(residual.trunk, PlaneTrunk):
        residual.trunk.check()
    return residual.requires_grad_(False)
