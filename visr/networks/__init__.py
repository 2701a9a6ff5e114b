"""Networks: an observation -> a torso -> phi(s) and psi(s, a, w)."""

from __future__ import annotations

from gymnasium import spaces

from visr.config.fields import AgentConfig
from visr.errors import UserError
from visr.networks import images
from visr.networks.deep import DeepFeatures, DeepSuccessorFeatures
from visr.networks.successor import Features, MlpFeatures, MlpSuccessorFeatures, SuccessorFeatures
from visr.networks.torsos import MlpTorso
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
    if images.is_image(spec.observation_space):
        centred = config.centred_features if centred is None else centred
        return DeepFeatures(_image_torso(spec, config.torso), size, centred, unit)
    _refuse_image_torso(spec, config.torso)
    return MlpFeatures(spec, size, config.hidden_sizes, config.normalise_observations, unit)


def successor_features(
    spec: EnvSpec, config: AgentConfig, num_features: int, task_size: int
) -> SuccessorFeatures:
    """psi for these observations: sums of `num_features` cumulants for tasks of length `task_size`."""
    if images.is_image(spec.observation_space):
        torso, lstm = _image_torso(spec, config.torso), config.core != "none"
    else:
        _refuse_image_torso(spec, config.torso)
        sizes, normalise = config.hidden_sizes, config.normalise_observations
        if config.core != "lstm":
            return MlpSuccessorFeatures(spec, num_features, sizes, normalise, task_size)
        torso, lstm = MlpTorso(spec.observation_space, sizes, normalise), True
    return DeepSuccessorFeatures(
        torso,
        num_features,
        spec.num_actions,
        lstm=lstm,
        task_size=task_size,
        head_size=config.head_size,
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
