"""chi(s, a, s'): features of a step, fitted to recorded steps; the replay learner sums them."""

from __future__ import annotations

from gymnasium import spaces

from visr.errors import UserError
from visr.networks import conv_torsos
from visr.networks.plane_trunk import are_planes
from visr.networks.transition_features.base import TransitionFeatures
from visr.networks.transition_features.events import PlaneEvents
from visr.networks.transition_features.laplacian import (
    MOST_STATES,
    LaplacianFeatures,
    LaplacianStates,
)
from visr.networks.transition_features.learned import (
    InverseDynamics,
    SelfPredictive,
    UnitFeatures,
)
from visr.networks.transition_features.projections import (
    PooledConvolutions,
    StateProjection,
    VectorProjection,
)
from visr.types import EnvSpec

_LEARNED = {
    "phi": UnitFeatures,
    "laplacian": LaplacianFeatures,
    "inverse": InverseDynamics,
    "self-predictive": SelfPredictive,
}


def build(
    kind: str, spec: EnvSpec, size: int, gamma: float, updates: int, smooth: bool = False
) -> TransitionFeatures:
    """Features of `kind` with `size` numbers; `auto` chooses by the observations.

    `updates` are those of learned features in each stage; `smooth` prefers Laplacian features of states.
    """
    space = spec.observation_space
    if kind == "auto":
        kind = _by_observations(space, 0 if smooth else size)
    if kind in ("events", "rare-events") and are_planes(space):
        shape, rare = space.shape, kind == "rare-events"
        return PlaneEvents(shape, size, gamma, rare)  # pyright: ignore[reportArgumentType]
    if kind == "pooled" and isinstance(space, spaces.Box) and conv_torsos.is_image(space):
        return PooledConvolutions(space.shape, size, max(int(space.high.max()), 1))
    if kind == "projection" and isinstance(space, spaces.Discrete):
        return StateProjection(int(space.n), size)
    if kind == "projection" and isinstance(space, spaces.Box) and len(space.shape) == 1:
        return VectorProjection(space.shape[0], size)
    if kind == "laplacian" and isinstance(space, spaces.Discrete):
        return LaplacianStates(int(space.n), size)
    if kind in _LEARNED:
        return _LEARNED[kind](spec, size, updates)
    raise UserError(
        f"transition_features = {kind!r} does not read observations of {space}; use "
        "--transition-features auto."
    )


def _by_observations(space: spaces.Space, size: int) -> str:
    """Events of planes, convolutions of images, Laplacian of more states than `size`, or projections."""
    if are_planes(space):
        return "events"
    if conv_torsos.is_image(space):
        return "pooled"
    many_states = isinstance(space, spaces.Discrete) and size < space.n <= MOST_STATES
    return "laplacian" if many_states else "projection"
