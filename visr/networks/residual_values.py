"""A correction of Q(s, a) for one task: psi keeps its weights, a new network adds to psi . w."""

from __future__ import annotations

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.networks import replay_trunks
from visr.networks.successor import FoldedReadout, SuccessorFeatures
from visr.types import EnvSpec, Transitions

SCALE = 4.0
"""Size of the outputs: values are larger than what a new layer gives."""


class ResidualValues(nn.Module):
    """scale * (W trunk(s) + b), or scale * a table of numbered states; 0 at the start."""

    def __init__(self, spec: EnvSpec, num_heads: int = 1) -> None:
        super().__init__()
        space, size = spec.observation_space, num_heads * spec.num_actions
        self._shape = (num_heads, spec.num_actions)
        if isinstance(space, spaces.Discrete):
            self.trunk, self.readout = None, nn.Embedding(int(space.n), size)
        else:
            self.trunk = replay_trunks.trunk(space, "auto")
            self.readout = nn.Linear(self.trunk.size, size)
        for parameter in self.readout.parameters():
            nn.init.zeros_(parameter)
        self.scale: Tensor
        self.register_buffer("scale", torch.tensor(SCALE))

    @torch.no_grad()
    def fit(self, steps: Transitions) -> None:
        """Take statistics of recorded steps: the scale of vectors, the plane of the agent."""
        if self.trunk is not None:
            self.trunk.fit(steps)

    @torch.no_grad()
    def read_as(self, psi: SuccessorFeatures) -> None:
        """Start from what psi has learnt to read, where both read observations by the same network."""
        trunk, of_psi = self.trunk, getattr(psi, "observation", None)
        if trunk is None or of_psi is None or type(trunk) is not type(of_psi):
            return
        weights = of_psi.state_dict()
        if all(weights[name].shape == own.shape for name, own in trunk.state_dict().items()):
            trunk.load_state_dict(weights)

    def forward(self, observation: Tensor) -> Tensor:
        """[N, ...] -> [N, heads, actions]"""
        read = observation if self.trunk is None else self.trunk(observation)
        return self.scale * self.readout(read).unflatten(-1, self._shape)


class RefinedSuccessorFeatures(SuccessorFeatures):
    """psi'(s, a, w) = psi(s, a, w) + residual(s, a) w0, so that psi' . w0 = psi . w0 + residual.

    It is meant for the one task w0, of unit length.
    """

    def __init__(self, psi: SuccessorFeatures, residual: ResidualValues, w: Tensor) -> None:
        super().__init__()
        self.base, self.residual = psi, residual
        self.num_actions, self.num_features = psi.num_actions, psi.num_features
        self.memory_size = psi.memory_size
        self.w: Tensor
        self.register_buffer("w", w)

    def trunk(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """psi's trunk and, after it, the residual of every action."""
        hidden, memory = self.base.trunk(observation, previous_action, memory)
        added = self.residual(observation.flatten(0, 1))[:, 0].unflatten(0, observation.shape[:2])
        return torch.cat([hidden, added], dim=-1), memory

    def step(
        self, observation: Tensor, previous_action: Tensor, memory: Tensor
    ) -> tuple[Tensor, Tensor]:
        """observation [N, ...] -> [N, hidden + actions], memory"""
        hidden, memory = self.base.step(observation, previous_action, memory)
        return torch.cat([hidden, self.residual(observation)[:, 0]], dim=-1), memory

    def heads(self, hidden: Tensor, w: Tensor) -> Tensor:
        """hidden [*batch, hidden + actions], w -> [*batch, actions, features]"""
        own, added = self._parts(hidden)
        return self.base.heads(own, w) + added.unsqueeze(-1) * self.w

    def fold(self, w: Tensor) -> FoldedReadout:
        """psi's own; the residual needs none."""
        return self.base.fold(w)

    def gpi_values(self, hidden: Tensor, policies: Tensor, readout: FoldedReadout) -> Tensor:
        """max_i psi(s, a, w_i) . w + residual(s, a): [N, hidden + actions], [N, P, d] -> [N, actions]"""
        own, added = self._parts(hidden)
        return self.base.gpi_values(own, policies, readout) + added

    def _parts(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return hidden[..., : -self.num_actions], hidden[..., -self.num_actions :]
