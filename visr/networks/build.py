"""Which networks read which observations."""

from __future__ import annotations

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

    def __init__(self, space: spaces.Space, hidden_sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.size = hidden_sizes[-1]
        self.first = torsos.first_layer(space, hidden_sizes[0])
        self.body = hidden_layers(hidden_sizes)

    def forward(self, observation: Tensor) -> Tensor:
        """observation [...] -> [..., size]"""
        return self.body(self.first(observation).relu())


def is_image(space: spaces.Space) -> bool:
    """Whether observations are pixels, [C, H, W] in bytes."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


def features(
    spec: EnvSpec, num_features: int, torso: str, hidden_sizes: tuple[int, ...], centred: bool
) -> nn.Module:
    """phi for these observations."""
    if is_image(spec.observation_space):
        return DeepFeatures(_image_torso(spec, torso), num_features, centred)
    _refuse_image_torso(spec, torso)
    return Features(spec, num_features, hidden_sizes)


def successor_features(
    spec: EnvSpec, num_features: int, torso: str, core: str, hidden_sizes: tuple[int, ...]
) -> SuccessorFeatures:
    """psi for these observations."""
    space, actions = spec.observation_space, spec.num_actions
    if is_image(space):
        body = _image_torso(spec, torso)
        return DeepSuccessorFeatures(body, num_features, actions, lstm=core != "none")
    _refuse_image_torso(spec, torso)
    if core == "lstm":
        return DeepSuccessorFeatures(MlpTorso(space, hidden_sizes), num_features, actions, True)
    return MlpSuccessorFeatures(spec, num_features, hidden_sizes)


def _image_torso(spec: EnvSpec, torso: str) -> images.ImageTorso:
    if torso == "mlp":
        raise UserError("torso = 'mlp' does not read images; use nature, nips or impala.")
    shape = spec.observation_space.shape
    assert shape is not None
    return images.build("impala" if torso == "auto" else torso, shape)


def _refuse_image_torso(spec: EnvSpec, torso: str) -> None:
    if torso not in ("auto", "mlp"):
        raise UserError(
            f"torso = {torso!r} reads images and these observations are {spec.observation_space}; "
            "use --torso auto."
        )
