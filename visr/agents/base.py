"""psi, its target network, and the n-step rule that trains them on whatever an agent sums."""

from __future__ import annotations

import copy
from typing import NamedTuple, Protocol

import torch
from torch import Generator, Tensor, nn

from visr.agents import n_step_q
from visr.agents.plans import plan
from visr.config import AgentConfig, InferenceConfig
from visr.networks import build
from visr.networks.successor import SuccessorFeatures
from visr.types import EnvSpec, Transitions, Unroll


class Losses(NamedTuple):
    """What an update minimises, and what it reports."""

    psi: Tensor
    phi: Tensor
    """Of what the cumulant is read from; 0 where that does not learn."""
    metrics: dict[str, Tensor]
    bonus: Tensor | None = None
    """Of the model behind an intrinsic bonus."""

    @property
    def total(self) -> Tensor:
        """Their sum; no two of them share a parameter."""
        total = self.psi + self.phi
        return total if self.bonus is None else total + self.bonus


class BehaviourModel(Protocol):
    """A model that maps every reward in its span to a behaviour: a task w, and a policy for each w."""

    @property
    def task_size(self) -> int:
        """The length of w."""
        ...

    def cumulant(self, steps: Transitions) -> Tensor:
        """[N, d]: the features that a task rewards, phi(s') for VISR."""
        ...

    def task_from(self, c: Tensor, weight: Tensor, config: InferenceConfig) -> Tensor:
        """The task that pays `weight` [N] for the cumulants c [N, d]: w [d]."""
        ...

    def sample_tasks(self, num_tasks: int, rng: Generator) -> Tensor:
        """Tasks as in training, [N, d]."""
        ...

    def losses(self, unroll: Unroll) -> Losses:
        """What one update minimises."""
        ...


class Fit(NamedTuple):
    """How well psi sums its cumulant."""

    loss: Tensor
    metrics: dict[str, Tensor]


class Values(nn.Module):
    """The part that all agents share; each adds where its cumulant comes from."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__()
        self.config, self.spec = config, spec
        self.psi = new_psi(config, spec)
        self.target_psi = copy.deepcopy(self.psi) if config.target_period > 1 else None

    def loss(
        self,
        cumulant: Tensor,
        unroll: Unroll,
        *,
        endless: bool = False,
        off_policy: Tensor | None = None,
    ) -> Fit:
        """sum_i (psi_i - y_i)^2 for a cumulant [T, B, features]; the target network bootstraps, if any.

        `endless` makes an episode's end a step like any other, and the new beginning what it leads to;
        `off_policy` [B] tells which unrolls pursued another task than their w.
        """
        gamma, n = self.config.gamma, self.config.n_step
        psi = along(self.psi, unroll)
        read = _without_ends(unroll) if endless else unroll
        with torch.no_grad():
            future = psi if self.target_psi is None else along(self.target_psi, unroll)
            target = n_step_q.targets(future, cumulant, read, gamma, n, off_policy)
        loss = n_step_q.loss(psi, target, read, self.config.value_weight)
        return Fit(loss, {"psi_loss": loss.detach(), "psi_spread": spread(psi.detach())})

    @property
    def device(self) -> torch.device:
        """Where the networks live."""
        return next(self.psi.parameters()).device

    @torch.no_grad()
    def refresh_target(self) -> None:
        """Copy psi into its target network."""
        if self.target_psi is not None:
            self.target_psi.load_state_dict(self.psi.state_dict())


def new_psi(config: AgentConfig, spec: EnvSpec) -> SuccessorFeatures:
    """psi as the configuration wants it, with fresh weights."""
    return build.successor_features(spec, plan(config, config.num_cumulants), config.task_size)


def along(psi: SuccessorFeatures, unroll: Unroll) -> Tensor:
    """psi of every step of an unroll, [T + 1, B, actions, features]; a core starts from the stored memory."""
    hidden, _ = psi.trunk(unroll.observation, unroll.previous_actions, unroll.memory)
    return psi.heads(hidden, unroll.w)


def spread(psi: Tensor) -> Tensor:
    """How much psi [T, B, actions, features] differs from state to state, as a share of its size."""
    size = psi.square().mean().sqrt()
    return psi.var(dim=0).mean().sqrt() / size.clamp(min=torch.finfo(psi.dtype).tiny)


def _without_ends(unroll: Unroll) -> Unroll:
    never = torch.zeros_like(unroll.is_reset)
    return unroll._replace(terminated=never, truncated=never, is_reset=never)
