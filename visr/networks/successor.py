"""phi, the unit features, and psi, the universal successor features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import pairwise
from typing import NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from visr.networks import torsos
from visr.ops import sphere
from visr.types import EnvSpec


class FoldedReadout(NamedTuple):
    """psi's last layer with a task multiplied in: hidden -> psi . w."""

    weight: Tensor
    """[N, hidden, actions]"""
    bias: Tensor
    """[N, actions]"""


class SuccessorFeatures(nn.Module, ABC):
    """psi(o, a, w) in two parts: a trunk that sees what happens, heads that join it with w.

    GPI consults many w about one state, so only the heads are run for each of them.
    """

    num_actions: int
    num_features: int
    memory_size: int = 0
    """Length of what an actor carries from step to step; 0 without a recurrent core."""

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
        """psi . w needs only the last layer's weights times w: [N, features] -> [N, ..., actions]

        A task lasts for many steps, so this is done once and used for all of them.
        """

    @abstractmethod
    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """max_i psi(o, a, w_i) . w, judged on the task whose readout was folded; psi is never formed.

        hidden [N, hidden], policies [N, P, features] -> [N, actions]
        """

    def worth(self, w: Tensor) -> Tensor:
        """What each cumulant counts for the task: w itself, or 1 where psi is a single value of any task.

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
        """What is known before an episode: previous actions [N] of -1, a memory [N, M] of zeros."""
        like = next(self.parameters())
        nothing = torch.full((num_envs,), -1, dtype=torch.int64, device=like.device)
        return nothing, like.new_zeros(num_envs, self.memory_size)


class Features(nn.Module):
    """phi(o): the mean direction of q(w | o), an MLP normalised to unit length (unless `unit` is false)."""

    def __init__(
        self,
        spec: EnvSpec,
        num_features: int,
        hidden_sizes: tuple[int, ...],
        normalise: bool = True,
        unit: bool = True,
    ) -> None:
        super().__init__()
        self._unit = unit
        space = spec.observation_space
        self.num_states = int(space.n) if isinstance(space, spaces.Discrete) else None
        self.observation = torsos.first_layer(space, hidden_sizes[0], normalise=normalise)
        self.bias = nn.Parameter(torch.zeros(hidden_sizes[0]))
        self.body = hidden_layers(hidden_sizes)
        self.readout = torsos.linear(hidden_sizes[-1], num_features)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] -> [..., features]

        A batch with more entries than there are states is cheaper as one look-up into all of phi.
        """
        if self.num_states is None or observation.numel() <= self.num_states:
            return self._embed(observation)
        every_state = torch.arange(self.num_states, device=observation.device)
        return functional.embedding(observation, self._embed(every_state))

    def _embed(self, observation: Tensor) -> Tensor:
        hidden = (self.observation(observation) + self.bias).relu()
        features = self.readout(self.body(hidden))
        return sphere.normalise(features) if self._unit else features


class MlpSuccessorFeatures(SuccessorFeatures):
    """The grid experiment's psi: an MLP on the observation and w side by side."""

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
        # One layer on concat(o, w) is the sum of a layer on o and a layer on w.
        self.observation = torsos.first_layer(
            spec.observation_space, hidden_sizes[0], task_size, normalise
        )
        fan_in = spaces.flatdim(spec.observation_space) + task_size
        self.task = torsos.linear(task_size, hidden_sizes[0], fan_in=fan_in)
        self.body = hidden_layers(hidden_sizes)
        self.readout = torsos.linear(hidden_sizes[-1], spec.num_actions * num_features)

    def trunk(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The observation's share of the first layer."""
        return self.observation(observation), memory

    step = trunk  # a look-up does not care for the axis of time

    def first_step(self, observation: Tensor) -> Tensor:
        """Any batch will do where nothing is remembered: [...] -> [..., hidden]"""
        return self.observation(observation)

    def heads(self, hidden: Tensor, w: Tensor) -> Tensor:
        """hidden [*batch, hidden], w broadcastable to [*batch, features] -> [*batch, actions, features]"""
        hidden = self.body((hidden + self.task(w)).relu())
        return self.readout(hidden).unflatten(-1, (self.num_actions, self.num_features))

    def fold(self, w: Tensor) -> FoldedReadout:
        """psi . w needs only the last layer's weights times w: [N, features] -> [N, ..., actions]"""
        w, shape = self.worth(w), (self.num_actions, self.num_features)
        weight, bias = (
            self.readout.weight.unflatten(0, shape),
            self.readout.bias.unflatten(0, shape),
        )
        folded = (w @ weight.transpose(0, 1).flatten(1)).unflatten(1, (self.num_actions, -1))
        return FoldedReadout(folded.transpose(1, 2), w @ bias.T)

    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """hidden [N, hidden], policies [N, P, features] -> [N, actions]"""
        hidden = self.task(policies).add_(hidden.unsqueeze(1)).relu_()
        for layer in self.body:
            hidden = layer(hidden).relu_()
        return torch.bmm(hidden, readout.weight).amax(dim=1).add_(readout.bias)


class HiddenLayers(nn.Sequential):
    """Linear layers, each followed by a ReLU (not in place: autograd would copy to undo it)."""

    def forward(self, input: Tensor) -> Tensor:
        """[..., first size] -> [..., last size]"""
        hidden = input
        for layer in self:
            hidden = layer(hidden).relu()
        return hidden


def hidden_layers(sizes: tuple[int, ...]) -> HiddenLayers:
    """The layers between the first hidden one and the last."""
    return HiddenLayers(*(torsos.linear(a, b) for a, b in pairwise(sizes)))
