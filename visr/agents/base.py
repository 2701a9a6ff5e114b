"""The interface of all agents, and of those that infer w from a reward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn

from visr.config.fields import AgentConfig, InferenceConfig
from visr.networks.successor import FoldedReadout, SuccessorFeatures
from visr.ops.regression import LEAST_SQUARES, RewardSums, fit_task
from visr.types import EnvSpec, Transitions, Unroll


class Losses(NamedTuple):
    """The losses of one update; no two of them share a parameter."""

    psi: Tensor
    phi: Tensor
    """The loss of the cumulant's own networks; 0 where nothing learns."""
    metrics: dict[str, Tensor]
    bonus: Tensor | None = None
    """The loss of the model behind an exploration bonus."""

    @property
    def total(self) -> Tensor:
        """Their sum."""
        total = self.psi + self.phi
        return total if self.bonus is None else total + self.bonus


class Agent(nn.Module, ABC):
    """Values psi(s, a, w) . w, learnt by n-step Q-learning of a cumulant that each agent defines."""

    psi: SuccessorFeatures
    target_psi: SuccessorFeatures | None
    adapts = False
    """Whether it can be given a new reward after training."""
    uses_reward = False
    """Whether it is trained on the environment's reward."""

    def __init__(self, config: AgentConfig, spec: EnvSpec) -> None:
        super().__init__()
        self.config, self.spec = config, spec

    @property
    @abstractmethod
    def task_size(self) -> int:
        """The length of a task w."""

    @abstractmethod
    def sample_tasks(self, num_tasks: int, rng: Generator | None) -> Tensor:
        """Tasks to pursue in training, [N, task size]."""

    @abstractmethod
    def sample_policies(self, w: Tensor, rng: Generator | None, gpi: bool | None = None) -> Tensor:
        """The policies that act for w: [..., task size] -> [..., P, task size], w first."""

    @abstractmethod
    def action_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """Values to be greedy in, of the task w with readout = self.readout(w).

        hidden [N, hidden], policies [N, P, task size] -> [N, actions]
        """

    def readout(self, w: Tensor, gpi: bool | None = None) -> FoldedReadout:
        """psi's last layer multiplied by w [N, task size], for the policies of `sample_policies`."""
        return self.psi.fold(w)

    @abstractmethod
    def losses(self, unroll: Unroll) -> Losses:
        """The losses of one update on unrolls [T, B]."""

    @abstractmethod
    def parameter_groups(self) -> dict[str, list[nn.Parameter]]:
        """Parameters that learn, by the settings of their optimiser: psi, phi, bonus."""

    def set_bonus_share(self, share: float) -> None:
        """Scale an exploration bonus by this share; agents without a bonus ignore it."""

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.psi.parameters()).device

    def values_of(
        self, hidden: Tensor, w: Tensor, rng: Generator | None = None, gpi: bool | None = None
    ) -> Tensor:
        """Q(s, a) of the task w [d] in N states that `psi.first_step` has read: [N, actions]."""
        tasks = w.expand(len(hidden), -1)
        policies = self.sample_policies(tasks, rng, gpi).to(self.device)
        return self.action_values(hidden, policies, self.readout(tasks.to(self.device), gpi))

    def values_of_tasks(
        self, hidden: Tensor, w: Tensor, rng: Generator | None = None, gpi: bool | None = None
    ) -> Tensor:
        """The same of many tasks [K, d]: [K, N, actions]."""
        return torch.stack([self.values_of(hidden, task, rng, gpi) for task in w])

    def predictions(self, unroll: Unroll) -> tuple[Tensor, Tensor]:
        """psi and the target network's psi' (psi itself without one): [T + 1, B, actions, d] each."""
        psi = self.psi.along(unroll)
        with torch.no_grad():
            return psi, psi if self.target_psi is None else self.target_psi.along(unroll)

    @torch.no_grad()
    def refresh_target(self) -> None:
        """Copy psi into its target network."""
        if self.target_psi is not None:
            self.target_psi.load_state_dict(self.psi.state_dict())


class BehaviourModel(Agent):
    """An agent with a policy for every task w, and a task w for every reward."""

    adapts = True
    packed_parts: tuple[str, ...] = ("phi", "psi")
    """The modules and buffers that a packed model holds."""

    infers_by_mean = False
    """Whether a reward's task is the mean of r times the features, instead of a regression."""
    prefers_regression = False
    """Whether search among its tasks is only for rewards that no regression explains."""

    @property
    def features_of_states(self) -> bool:
        """Whether inference may regress rewards on the features of both states of a step."""
        return False

    @property
    def features_of_pairs(self) -> bool:
        """Whether features are of the change between two observations, so that one alone has none."""
        return False

    def packed(self) -> dict[str, Tensor]:
        """The tensors of a packed model, by name."""
        return {k: v for k, v in self.state_dict().items() if k.split(".")[0] in self.packed_parts}

    def load_packed(self, tensors: dict[str, Tensor]) -> None:
        """The inverse of `packed`."""
        if tensors.keys() != self.packed().keys():
            raise ValueError("the names of its tensors are not those of this agent")
        if any(tensors[name].dtype != own.dtype for name, own in self.packed().items()):
            raise ValueError("the types of its tensors are not those of this agent")
        self.load_state_dict(self.state_dict() | tensors)
        self.refresh_target()

    @abstractmethod
    def cumulant(self, steps: Transitions) -> Tensor:
        """[N, d]: the features of steps that rewards are regressed on, phi(s') for VISR."""

    def cumulants(self, unroll: Unroll) -> Tensor:
        """What psi sums, at every step of unrolls: [T, B, d]."""
        seen = unroll.observation
        return self.cumulant(Transitions(seen[1:], seen[:-1], unroll.action, unroll.terminated))

    def task_from(
        self, c: Tensor, weight: Tensor, config: InferenceConfig = LEAST_SQUARES
    ) -> Tensor:
        """The unit w of the regression weight ~ c . w: [N, d], [N] -> [d]; phi(g) for one goal g."""
        sums = RewardSums(self.task_size)
        sums.add(c.detach().cpu().numpy(), weight.detach().cpu().numpy())
        return torch.as_tensor(fit_task(sums, config).w, dtype=c.dtype, device=c.device)


def psi_metrics(loss: Tensor, psi: Tensor) -> dict[str, Tensor]:
    """psi's loss, and its deviation over the states of an unroll as a share of its size."""
    known = psi.detach()
    size = known.square().mean().sqrt().clamp(min=torch.finfo(psi.dtype).tiny)
    return {"psi_loss": loss.detach(), "psi_spread": _variance(known).mean().sqrt() / size}


def _variance(values: Tensor) -> Tensor:
    """Over the first axis, as `values.var(dim=0)`, which takes eight times as long on a CPU."""
    if not values.is_cpu:
        return values.var(dim=0)
    wide = values.double()
    wide -= wide.mean(dim=0)
    return wide.square_().sum(dim=0).div_(len(wide) - 1).to(values.dtype)
