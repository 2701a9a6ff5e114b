"""Forward-backward representations (Touati and Ollivier, 2021), on the replay learner's data and tasks.

M(s, a, ds') = F(s, a, z) . B(s') rho(ds') is the discounted occupancy of the policy of z, which is greedy in
F(s, a, z) . z. For the reward r that policy is the one of z = E_rho[r B]. Here F is `psi` and B is `chi`.
"""

from __future__ import annotations

import copy
import math

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.agents.base import Losses
from visr.agents.replay_successor_features import ReplaySuccessorFeatures, TaskBatch
from visr.config.fields import AgentConfig, InferenceConfig
from visr.config.replay import ReplayConfig
from visr.errors import UserError
from visr.networks.transition_features.base import TransitionFeatures, ended, of_unroll
from visr.networks.transition_features.encoder import (
    Encoder,
    off_diagonal_square,
    orthonormality,
)
from visr.ops import sphere
from visr.ops.regression import LEAST_SQUARES
from visr.types import EnvSpec, Transitions, Unroll


class ForwardBackward(ReplaySuccessorFeatures):
    """F(s, a, z): psi of the features B(s'), which are learned with it."""

    infers_by_mean = True

    def __init__(self, config: AgentConfig, spec: EnvSpec, replay: ReplayConfig) -> None:
        super().__init__(config, spec, replay)
        self.chi.requires_grad_(True)
        self.target_chi = copy.deepcopy(self.chi).requires_grad_(False)

    def _features(self) -> BackwardFeatures:
        return BackwardFeatures(self.spec.observation_space, self.config.num_features)

    def losses(self, unroll: Unroll | TaskBatch) -> Losses:
        """1/2 mean_{i != j} (M_ij - gamma M'_ij)^2 - mean_i F_i . B(s'_i) + orthonormality of B.

        M_ij = F(s_i, a_i, z) . B(s'_j) under every task z; M' is the target networks' at s'_i. With n steps
        the second term sums gamma^k B over the states of these steps.
        """
        assert isinstance(unroll, TaskBatch)
        batch = unroll
        reached = Transitions(batch.next_observation, terminated=batch.discount == 0)
        with torch.no_grad():
            after = self.values_after(batch)
            following = after.psi @ self.target_chi(reached).T
            target = batch.discount[None, :, None] * following
        forward = self.psi.of_steps(
            self.psi.first_step(batch.observation), batch.action, batch.w
        ).psi
        backward = self.chi(reached)
        off_diagonal = 0.5 * off_diagonal_square(forward @ backward.T - target)
        diagonal = -(forward * batch.cumulant).sum(dim=-1).mean()
        orthonormal = orthonormality(backward)
        loss = off_diagonal + diagonal + orthonormal
        metrics = {
            "psi_loss": (off_diagonal + diagonal).detach(),
            "orthonormality": orthonormal.detach(),
            "value": after.value.mean() / self.task_size,
        }
        return Losses(loss, loss.new_zeros(()), metrics)

    @torch.no_grad()
    def move_target(self) -> None:
        """Move both target networks a step towards F and B."""
        super().move_target()
        for target, source in zip(self.target_chi.parameters(), self.chi.parameters(), strict=True):
            target.lerp_(source, self.replay.target_rate)

    @torch.no_grad()
    def refresh_target(self) -> None:
        """Copy F and B into their target networks."""
        super().refresh_target()
        self.target_chi.load_state_dict(self.chi.state_dict())

    def start_afresh(self, fresh: ReplaySuccessorFeatures) -> None:
        """Take the weights of a new agent, B's too."""
        self.chi.load_state_dict(fresh.chi.state_dict())
        super().start_afresh(fresh)

    @torch.no_grad()
    def fit(self, recorded: Unroll) -> None:
        """Fit the statistics of observations in F, B and their target networks."""
        super().fit(recorded)
        self.target_chi.load_state_dict(self.chi.state_dict())

    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """F's and B's."""
        return {"psi": [*self.psi.parameters(), *self.chi.parameters()]}

    def task_from(
        self, c: Tensor, weight: Tensor, config: InferenceConfig = LEAST_SQUARES
    ) -> Tensor:
        """z = sqrt(d) normalise(E[r B]): [N, d], [N] -> [d]; no setting changes it."""
        z = (c * weight[:, None]).mean(dim=0)
        if float(z.norm()) < 1e-12:
            raise UserError(
                "The reward has nothing in common with the features (E[r B] = 0), so no task can be "
                "inferred from it; train with more features (--num-features) or change the reward."
            )
        return sphere.normalise(z) * math.sqrt(self.task_size)


class BackwardFeatures(TransitionFeatures):
    """B(s'): an encoder of s', and a vector that is added where the episode ends."""

    def __init__(self, space: spaces.Space, num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.encoder = Encoder(space, num_features)
        self.at_end = nn.Parameter(torch.randn(num_features))

    def fit(self, recorded: Unroll) -> None:
        """Take the statistics of observations; the agent learns the rest."""
        self.encoder.trunk.fit(of_unroll(recorded))

    def forward(self, steps: Transitions) -> Tensor:
        """[N, d]"""
        return self.encoder(steps.next_observation) + ended(steps)[:, None] * self.at_end
