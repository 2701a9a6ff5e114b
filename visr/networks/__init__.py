"""Networks: an observation -> a torso -> phi(s) and psi(s, a, w)."""

from __future__ import annotations

from gymnasium import spaces

from visr.config.fields import AgentConfig
from visr.errors import UserError
from visr.networks import conv_torsos
from visr.networks.deep import DeepFeatures, DeepSuccessorFeatures
from visr.networks.mlp_torsos import MlpTorso
from visr.networks.successor import Features, MlpFeatures, MlpSuccessorFeatures, SuccessorFeatures
from visr.types import EnvSpec


def features(
    spec: EnvSpec,
    config: AgentConfig,
    num_features: int | None = None,
    *,
    unit: bool = True,
    centred: bool | None = None,
) -> Features:
    """phi for these observations, by default as VISR has it: `config.num_features`, of unit length."""
    size = num_features or config.num_features
    if (torso := _image_torso(spec, config.torso)) is not None:
        centred = config.centred_features if centred is None else centred
        centre = config.feature_centre if centred else None
        return DeepFeatures(torso, size, centre, unit)
    layers = config.hidden_sizes[: config.phi_layers or None]
    return MlpFeatures(spec, size, layers, config.normalise_observations, unit)


def successor_features(
    spec: EnvSpec, config: AgentConfig, num_features: int, task_size: int
) -> SuccessorFeatures:
    """psi for these observations: sums of `num_features` cumulants for tasks of length `task_size`."""
    torso, lstm = _image_torso(spec, config.torso), config.core != "none"
    if torso is None:
        sizes, normalise = config.hidden_sizes, config.normalise_observations
        if config.core != "lstm":
            return MlpSuccessorFeatures(spec, num_features, sizes, normalise, task_size)
        torso = MlpTorso(spec.observation_space, sizes, normalise)
    return DeepSuccessorFeatures(
        torso,
        num_features,
        spec.num_actions,
        lstm=lstm,
        task_size=task_size,
        head_size=config.head_size,
    )


def _image_torso(spec: EnvSpec, torso: str) -> conv_torsos.ImageTorso | None:
    """The torso for images; None for states and vectors."""
    space = spec.observation_space
    if not (isinstance(space, spaces.Box) and conv_torsos.is_image(space)):
        if torso in ("auto", "small", "mlp"):
            return None
        raise UserError(
            f"torso = {torso!r} reads images and these observations are {space}; use --torso auto."
        )
    if torso == "mlp":
        raise UserError("torso = 'mlp' does not read images; use minatar, nips, nature or impala.")
    return conv_torsos.build(torso, space.shape, brightest=max(int(space.high.max()), 1))
