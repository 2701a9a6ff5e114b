"""Base classes of phi and psi, and both as MLPs for states and vectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.networks import mlp_torsos
from visr.ops import sphere
from visr.ops.linear import linear
from visr.ops.look_up import look_up
from visr.types import EnvSpec, Unroll


class Features(nn.Module, ABC):
    """phi(s) without memory; of unit length, the mean direction of q(w | s), unless `unit` is false."""

    def __init__(self, unit: bool) -> None:
        super().__init__()
        self.unit = unit

    @abstractmethod
    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] -> [..., features]"""

    def _scaled(self, features: Tensor) -> Tensor:
        return sphere.normalise(features) if self.unit else features


class FoldedReadout(NamedTuple):
    """psi's last layer multiplied by a task: hidden -> psi . w."""

    weight: Tensor
    """[N, hidden, actions]"""
    bias: Tensor
    """[N, actions]"""
    tasks: Tensor | None = None
    """[N, P, width]: what psi reads of the policies, if they are the same in every step and known here."""


class SuccessorFeatures(nn.Module, ABC):
    """psi(s, a, w) in two parts: a trunk that reads observations, heads that join it with w.

    GPI evaluates many w in one state, so that only the heads run for each of them.
    """

    num_actions: int
    num_features: int
    memory_size: int = 0
    """Length of the recurrent state that an actor carries from step to step; 0 without an LSTM."""

    @abstractmethod
    def trunk(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Read T steps of B environments; a previous action of -1 begins an episode.

        observation [T, B, ...], previous_action [T, B], memory [B, M] -> [T, B, hidden], memory after T
        """

    @abstractmethod
    def heads(self, hidden: Tensor, w: Tensor) -> Tensor:
        """hidden [*batch, hidden], w broadcastable to [*batch, features] -> [*batch, actions, features]"""

    @abstractmethod
    def fold(self, w: Tensor) -> FoldedReadout:
        """Multiply the last layer by w [N, features], once for all steps of a task."""

    @abstractmethod
    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """max_i psi(s, a, w_i) . w for the w of `readout`, without forming psi.

        hidden [N, hidden], policies [N, P, features] -> [N, actions]
        """

    def along(self, unroll: Unroll) -> Tensor:
        """psi of every step, [T + 1, B, actions, features]; an LSTM starts from the stored memory."""
        hidden, _ = self.trunk(unroll.observation, unroll.previous_actions, unroll.memory)
        return self.heads(hidden, unroll.w)

    def cumulant_weights(self, w: Tensor) -> Tensor:
        """The weight of each cumulant in the value: w, or 1 where psi has one cumulant for all tasks.

        [N, task size] -> [N, features]
        """
        return w if w.shape[-1] == self.num_features else w.new_ones(len(w), self.num_features)

    def step(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The trunk for one step: observation [N, ...], previous_action [N] -> [N, hidden], memory"""
        hidden, memory = self.trunk(observation[None], previous_action[None], memory)
        return hidden[0], memory

    def forward(self, observation: Tensor, w: Tensor) -> Tensor:
        """psi where every observation begins an episode: [N, ...], [N, features] -> [N, actions, features]"""
        return self.heads(self.first_step(observation), w)

    def first_step(self, observation: Tensor) -> Tensor:
        """The trunk where every observation begins an episode: [N, ...] -> [N, hidden]"""
        return self.step(observation, *self.no_memory(len(observation)))[0]

    def no_memory(self, num_envs: int) -> tuple[Tensor, Tensor]:
        """The state before an episode: previous actions [N] of -1, a memory [N, M] of zeros."""
        like = next(self.parameters())
        no_action = torch.full((num_envs,), -1, dtype=torch.int64, device=like.device)
        return no_action, like.new_zeros(num_envs, self.memory_size)


class MlpFeatures(Features):
    """phi(s) by an MLP."""

    def __init__(
        self,
        spec: EnvSpec,
        num_features: int,
        hidden_sizes: tuple[int, ...],
        normalise: bool = True,
        unit: bool = True,
    ) -> None:
        super().__init__(unit)
        space = spec.observation_space
        self.num_states = int(space.n) if isinstance(space, spaces.Discrete) else None
        self.observation = mlp_torsos.first_layer(space, hidden_sizes[0], normalise=normalise)
        self.bias = nn.Parameter(torch.zeros(hidden_sizes[0]))
        self.body = mlp_torsos.HiddenLayers(hidden_sizes)
        self.readout = mlp_torsos.linear(hidden_sizes[-1], num_features)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] -> [..., features]

        A batch with more entries than there are states is cheaper as one look-up into all of phi.
        """
        if self.num_states is None or observation.numel() <= self.num_states:
            return self._embed(observation)
        assert isinstance(self.observation, mlp_torsos.OneHot)
        return look_up(self._from_first(self.observation.weight), observation)

    def _embed(self, observation: Tensor) -> Tensor:
        return self._from_first(self.observation(observation))

    def _from_first(self, hidden: Tensor) -> Tensor:
        return self._scaled(self.readout(self.body((hidden + self.bias).relu_())))


class MlpSuccessorFeatures(SuccessorFeatures):
    """psi(s, a, w) by an MLP on the observation and w side by side: the grid experiment's."""

    def __init__(
        self,
        spec: EnvSpec,
        num_features: int,
        hidden_sizes: tuple[int, ...],
        normalise: bool = True,
        task_size: int | None = None,
    ) -> None:
        super().__init__()
        self.num_actions, self.num_features = spec.num_actions, num_features
        task_size = task_size or num_features
        # One layer on concat(s, w) is the sum of a layer on s and a layer on w.
        self.observation = mlp_torsos.first_layer(
            spec.observation_space, hidden_sizes[0], task_size, normalise
        )
        fan_in = spaces.flatdim(spec.observation_space) + task_size
        self.task = mlp_torsos.linear(task_size, hidden_sizes[0], fan_in=fan_in)
        self.body = mlp_torsos.HiddenLayers(hidden_sizes)
        self.readout = mlp_torsos.linear(hidden_sizes[-1], spec.num_actions * num_features)

    def trunk(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The observation's share of the first layer."""
        return self.observation(observation), memory

    step = trunk  # the same for any leading axes

    def along(self, unroll: Unroll) -> Tensor:
        return self.heads(self.observation(unroll.observation), unroll.w)

    def first_step(self, observation: Tensor) -> Tensor:
        """[...] -> [..., hidden]"""
        return self.observation(observation)

    def heads(self, hidden: Tensor, w: Tensor) -> Tensor:
        hidden = self.body((hidden + self.task(w)).relu_())
        psi = linear(hidden, self.readout)
        return psi.unflatten(-1, (self.num_actions, self.num_features))

    def fold(self, w: Tensor) -> FoldedReadout:
        w, shape = self.cumulant_weights(w), (self.num_actions, self.num_features)
        weight = self.readout.weight.unflatten(0, shape)
        bias = self.readout.bias.unflatten(0, shape)
        folded = (w @ weight.transpose(0, 1).flatten(1)).unflatten(1, (self.num_actions, -1))
        return FoldedReadout(folded.transpose(1, 2), w @ bias.T)

    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        hidden = self.task(policies).add_(hidden.unsqueeze(1)).relu_()
        hidden = self.body(hidden)
        return torch.bmm(hidden, readout.weight).amax(dim=1).add_(readout.bias)
