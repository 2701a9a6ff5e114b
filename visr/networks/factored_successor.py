"""psi(s, a, w) as a sum of a part of (s, a) and a part of w, for many tasks at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from visr.networks.successor import FoldedReadout, SuccessorFeatures
from visr.ops import sphere
from visr.types import Transitions


class Trunk(nn.Module):
    """Reads observations: [N, ...] -> [N, size]."""

    size: int

    def fit(self, steps: Transitions) -> None:
        """Set what depends on recorded steps, such as the mean of observations."""

    def read_task(self, w: Tensor) -> Tensor:
        """The task as psi reads it, up to its length: [..., d] -> [..., d]."""
        return w


class FactoredSuccessorFeatures(SuccessorFeatures):
    """psi(s, a, w) = scale * (W relu(U(s, a) + V(w)) + b).

    U is computed once per state and V once per task: N states under M tasks cost N + M passes, and the
    last layer. V reads w at the length sqrt(d), so that the scale of a reward does not change the policy.
    """

    def __init__(
        self, trunk: Trunk, num_actions: int, num_features: int, width: int, scale: float
    ) -> None:
        super().__init__()
        self.num_actions, self.num_features = num_actions, num_features
        self.width, self.scale = width, scale
        self.observation = trunk
        self.state = nn.Linear(trunk.size, num_actions * width)
        self.task = nn.Sequential(
            nn.Linear(num_features, _TASK_WIDTH), nn.ReLU(), nn.Linear(_TASK_WIDTH, width)
        )
        self.readout = nn.Linear(width, num_features)

    def trunk(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """U(s, a) of every action, flat: [..., actions * width]."""
        return self.first_step(observation.flatten(0, 1)).unflatten(
            0, observation.shape[:2]
        ), memory

    def step(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """observation [N, ...] -> [N, actions * width], memory"""
        return self.first_step(observation), memory

    def first_step(self, observation: Tensor) -> Tensor:
        """[N, ...] -> [N, actions * width]"""
        return self.state(self.observation(observation))

    def of_actions(self, hidden: Tensor) -> Tensor:
        """[..., actions * width] -> [..., actions, width]"""
        return hidden.unflatten(-1, (self.num_actions, self.width))

    def of_tasks(self, w: Tensor) -> Tensor:
        """V(w): [..., d] -> [..., width]"""
        read = sphere.normalise(self.observation.read_task(w))
        return self.task(read * math.sqrt(self.num_features))

    def sums(self, joined: Tensor) -> Tensor:
        """psi of relu(U + V): [..., width] -> [..., d]"""
        return self.readout(joined) * self.scale

    def heads(self, hidden: Tensor, w: Tensor) -> Tensor:
        """hidden [*batch, hidden], w broadcastable to [*batch, d] -> [*batch, actions, d]"""
        return self.sums(self.joined(hidden, w))

    def joined(self, hidden: Tensor, w: Tensor) -> Tensor:
        """relu(U + V), as `heads`: -> [*batch, actions, width]"""
        return (self.of_actions(hidden) + self.of_tasks(w).unsqueeze(-2)).relu()

    def fold(self, w: Tensor) -> FoldedReadout:
        """psi . w = relu(U + V) . weight + bias: weight [N, width, 1], bias [N, 1]."""
        weight = self.scale * w @ self.readout.weight
        return FoldedReadout(weight.unsqueeze(-1), self.scale * (w @ self.readout.bias)[:, None])

    def policy_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """psi(s, a, w_i) . w of every policy i: hidden [N, hidden], [N, P, d] -> [N, P, actions]

        The readout has one column for all policies, or one for each; it may know the policies already.
        """
        known = self.of_policies(policies) if readout.tasks is None else readout.tasks
        of_tasks = known.unsqueeze(-2)
        joined = (self.of_actions(hidden).unsqueeze(1) + of_tasks).relu_()
        if readout.weight.shape[-1] == 1:
            values = torch.bmm(joined.flatten(1, 2), readout.weight).view(joined.shape[:3])
        else:
            values = (joined @ readout.weight.mT.unsqueeze(-1)).squeeze(-1)
        return values + readout.bias.unsqueeze(-1)

    def of_policies(self, policies: Tensor) -> Tensor:
        """V of every policy, [N, P, width]; once for those that all states consult."""
        count = len(policies)
        if policies.shape[1] > 1 and policies.stride(0) == 0:
            return self.of_tasks(policies[0]).expand(count, -1, -1)
        own, others = policies[:, :1], policies[:, 1:]
        if count > 1 and others.shape[1] > 1 and bool((others == others[:1]).all()):
            shared = self.of_tasks(others[0]).expand(count, -1, -1)
            return torch.cat([self.of_tasks(own), shared], dim=1)
        return self.of_tasks(policies)

    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """max_i psi(s, a, w_i) . w: [N, hidden], [N, P, d] -> [N, actions]"""
        return self.policy_values(hidden, policies, readout).amax(dim=1)

    def of_steps(
        self, hidden: Tensor, action: Tensor, w: Tensor, num_whole: int | None = None
    ) -> UnderTasks:
        """psi . w of N steps under M tasks, and psi under the first of them.

        hidden [N, hidden], action [N], w [M, d]
        """
        chosen = self.of_actions(hidden)[torch.arange(len(action)), action]
        joined = (chosen + self.of_tasks(w).unsqueeze(1)).relu()
        weight, bias, _ = self.fold(w)
        return UnderTasks(
            torch.bmm(joined, weight).squeeze(-1) + bias, self.sums(joined[:num_whole])
        )

    def greedy(
        self, hidden: Tensor, w: Tensor, num_whole: int | None = None, temperature: float = 0.0
    ) -> UnderTasks:
        """The same of the greedy action of each task in N states: hidden [N, hidden], w [M, d].

        With a temperature, of a softmax over the actions, whose unit is the task's mean value plus its
        typical reward. Actions of equal value then have equal shares; the greedy action among them
        changes at random from update to update.
        """
        joined = (self.of_actions(hidden) + self.of_tasks(w)[:, None, None]).relu_()
        weight, bias, _ = self.fold(w)
        values = torch.bmm(joined.flatten(1, 2), weight).view(joined.shape[:3]) + bias[..., None]
        if temperature == 0:
            value, action = values.max(dim=-1)
            index = action[:num_whole, :, None, None].expand(-1, -1, 1, self.width)
            return UnderTasks(value, self.sums(joined[:num_whole].gather(2, index).squeeze(2)))
        typical = values.amax(dim=-1).abs().mean(dim=1) + w.norm(dim=1) * math.sqrt(w.shape[1])
        unit = (temperature * typical[:, None, None]).clamp(min=1e-6)  # w = 0: a state never fitted
        share = (values / unit).softmax(dim=-1)
        mixed = (joined[:num_whole] * share[:num_whole, ..., None]).sum(dim=2)
        return UnderTasks((values * share).sum(dim=-1), self.sums(mixed))


class UnderTasks(NamedTuple):
    """psi . w, and psi under the first tasks, of N steps or states."""

    value: Tensor
    """[M, N], psi(s, a, w) . w"""
    psi: Tensor
    """[M', N, d], psi(s, a, w) of the first M' tasks"""


_TASK_WIDTH = 256
