"""Which networks read which observations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from gymnasium import spaces
from torch import Tensor, nn

from visr.errors import UserError
from visr.networks import images, torsos
from visr.networks.deep import DeepFeatures, DeepSuccessorFeatures
from visr.networks.successor import (
    Features,
    MlpSuccessorFeatures,
    SuccessorFeatures,
    hidden_layers,
)
from visr.types import EnvSpec


class MlpTorso(nn.Module):
    """Hidden layers on a state's number or a vector, for whatever stands behind a torso."""

    def __init__(
        self, space: spaces.Space, hidden_sizes: tuple[int, ...], normalise: bool = True
    ) -> None:
        super().__init__()
        self.size = hidden_sizes[-1]
        self.first = torsos.first_layer(space, hidden_sizes[0], normalise=normalise)
        self.body = hidden_layers(hidden_sizes)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] -> [..., size]"""
        return self.body(self.first(observation).relu())


def is_image(space: spaces.Space) -> bool:
    """Whether observations are pixels, [C, H, W] in bytes."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


@dataclass(frozen=True)
class Plan:
    """What networks to build, in the words of the configuration."""

    num_features: int
    torso: str
    core: str
    hidden_sizes: tuple[int, ...]
    centred: bool
    normalise: bool
    head_size: int = 256
    unit: bool = True
    """Whether phi has length 1."""


def features(spec: EnvSpec, plan: Plan) -> nn.Module:
    """phi for these observations."""
    if is_image(spec.observation_space):
        torso = _image_torso(spec, plan.torso)
        return DeepFeatures(torso, plan.num_features, plan.centred, plan.unit)
    _refuse_image_torso(spec, plan.torso)
    return Features(spec, plan.num_features, plan.hidden_sizes, plan.normalise, plan.unit)


def successor_features(
    spec: EnvSpec, plan: Plan, task_size: int | None = None
) -> SuccessorFeatures:
    """psi for these observations; tasks are as long as features unless said otherwise."""
    space, d, num_actions = spec.observation_space, plan.num_features, spec.num_actions
    if is_image(space):
        body, lstm = _image_torso(spec, plan.torso), plan.core != "none"
    else:
        _refuse_image_torso(spec, plan.torso)
        if plan.core != "lstm":
            return MlpSuccessorFeatures(spec, d, plan.hidden_sizes, plan.normalise, task_size)
        body, lstm = MlpTorso(space, plan.hidden_sizes, plan.normalise), True
    return DeepSuccessorFeatures(
        body, d, num_actions, lstm=lstm, task_size=task_size, head_size=plan.head_size
    )


def _image_torso(spec: EnvSpec, torso: str) -> images.ImageTorso:
    if torso == "mlp":
        raise UserError("torso = 'mlp' does not read images; use minatar, nips, nature or impala.")
    space = spec.observation_space
    assert isinstance(space, spaces.Box)
    return images.build(torso, space.shape, brightest=max(int(space.high.max()), 1))


def _refuse_image_torso(spec: EnvSpec, torso: str) -> None:
    if torso not in ("auto", "mlp"):
        raise UserError(
            f"torso = {torso!r} reads images and these observations are {spec.observation_space}; "
            "use --torso auto."
        )
