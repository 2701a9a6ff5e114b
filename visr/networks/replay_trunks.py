"""Trunks of the replay learner's psi: states, vectors and images."""

from __future__ import annotations

import math

import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.errors import UserError
from visr.networks import conv_torsos
from visr.networks.factored_successor import Trunk
from visr.networks.plane_trunk import PlaneTrunk, are_planes
from visr.types import Transitions

SIZE = 256
_NUM_COSINES = 128
_FARTHEST = 6.0


def trunk(
    space: spaces.Space, torso: str, num_features: int | None = None, smooth: bool = False
) -> Trunk:
    """The trunk for these observations; `smooth` states, or more states than features, also read those."""
    is_image = isinstance(space, spaces.Box) and conv_torsos.is_image(space)
    if torso not in ("auto", "small", "mlp") and not is_image:
        raise UserError(
            f"torso = {torso!r} reads images and these observations are {space}; use --torso auto."
        )
    if isinstance(space, spaces.Discrete) and num_features and smooth:
        return SmoothStatesTrunk(int(space.n), num_features)
    if isinstance(space, spaces.Discrete) and num_features and space.n > num_features:
        return ManyStatesTrunk(int(space.n), num_features)
    if isinstance(space, spaces.Discrete):
        return StateTrunk(int(space.n))
    if are_planes(space) and torso == "auto":
        return PlaneTrunk(space.shape)  # pyright: ignore[reportArgumentType]
    if isinstance(space, spaces.Box) and is_image:
        name = "small" if torso == "auto" else torso
        return ImageTrunk(conv_torsos.build(name, space.shape, max(int(space.high.max()), 1)))
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return VectorTrunk(space.shape[0])
    raise UserError(f"The replay learner reads states, vectors and images, and these are {space}.")


class StateTrunk(Trunk):
    """A row of a table for every state."""

    def __init__(self, num_states: int) -> None:
        super().__init__()
        self.size = SIZE
        self.table = nn.Embedding(num_states, SIZE)

    def forward(self, observation: Tensor) -> Tensor:
        """[...] int64 -> [..., size]"""
        return self.table(observation).relu()


class ManyStatesTrunk(Trunk):
    """A row of a table for every state plus a projection of its features, which similar states share."""

    def __init__(self, num_states: int, num_features: int) -> None:
        super().__init__()
        self.size = SIZE
        self.table = nn.Embedding(num_states, SIZE)
        self.similar = nn.Linear(num_features, SIZE)
        self.body = nn.Sequential(nn.ReLU(), nn.Linear(SIZE, SIZE), nn.ReLU())
        self.features: Tensor
        self.register_buffer("features", torch.zeros(num_states, num_features))

    def fit_features(self, features: Tensor, slowness: Tensor) -> None:
        """Take the features of all states, [S, d]."""
        self.features.copy_(features)

    def forward(self, observation: Tensor) -> Tensor:
        """[...] int64 -> [..., size]"""
        return self.body(self.table(observation) / 2 + self.similar(self.features[observation]))


class SmoothStatesTrunk(ManyStatesTrunk):
    """The same, but features of states and tasks are read as their discounted sums under random actions.

    So states that are few steps apart, and rewards that lie there, start with similar successor features.
    """

    def __init__(self, num_states: int, num_features: int) -> None:
        super().__init__(num_states, num_features)
        self.slowness: Tensor
        self.register_buffer("slowness", torch.ones(num_features))

    def fit_features(self, features: Tensor, slowness: Tensor) -> None:
        """Take the features of all states, [S, d], and the size of their discounted sums, [d]."""
        self.features.copy_(features * slowness)
        self.slowness.copy_(slowness)

    def read_task(self, w: Tensor) -> Tensor:
        """[..., d] -> [..., d]"""
        return w * self.slowness


class Standardise(nn.Module):
    """Scale vectors to mean 0 and deviation 1 by the statistics of the recorded ones."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("deviation", torch.ones(size))

    def fit(self, rows: Tensor) -> None:
        """Take the statistics of [N, size]."""
        rows = rows.double()
        self.mean.copy_(rows.mean(dim=0))
        self.deviation.copy_(rows.std(dim=0, correction=min(1, len(rows) - 1)).clamp(min=1e-6))

    def forward(self, rows: Tensor) -> Tensor:
        """[..., size] -> the same, cut at 6 deviations"""
        return ((rows.float() - self.mean) / self.deviation).clamp(-_FARTHEST, _FARTHEST)


class VectorTrunk(Trunk):
    """An MLP on the standardised vector and fixed cosines of it, which bring out fine differences."""

    def __init__(self, num_inputs: int) -> None:
        super().__init__()
        self.size = SIZE
        self.standardise = Standardise(num_inputs)
        self.frequency: Tensor
        self.phase: Tensor
        length = torch.exp(torch.rand(_NUM_COSINES) * math.log(4) - math.log(2))
        self.register_buffer("frequency", torch.randn(num_inputs, _NUM_COSINES) / length)
        self.register_buffer("phase", torch.rand(_NUM_COSINES) * 2 * math.pi)
        self.body = nn.Sequential(
            nn.Linear(num_inputs + _NUM_COSINES, SIZE), nn.ReLU(), nn.Linear(SIZE, SIZE), nn.ReLU()
        )

    def fit(self, steps: Transitions) -> None:
        """Take the mean and the deviation of the recorded vectors."""
        assert steps.observation is not None
        self.standardise.fit(steps.observation)

    def forward(self, observation: Tensor) -> Tensor:
        """[..., inputs] -> [..., size]"""
        x = self.standardise(observation)
        return self.body(torch.cat([x, torch.cos(x @ self.frequency + self.phase)], dim=-1))


class ImageTrunk(Trunk):
    """A convolutional torso."""

    def __init__(self, torso: conv_torsos.ImageTorso) -> None:
        super().__init__()
        self.torso, self.size = torso, torso.size

    def forward(self, observation: Tensor) -> Tensor:
        """[N, C, H, W] uint8 -> [N, size]"""
        return self.torso(observation)
