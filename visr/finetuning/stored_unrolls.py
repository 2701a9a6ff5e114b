"""Unrolls from a disk, trusting nothing: what no environment gave would go wrong many updates later."""

from __future__ import annotations

from gymnasium.spaces import Discrete
from torch import Tensor

from visr.types import BY_UNROLL, EnvSpec, Unroll


def met(piece: dict[str, Tensor], blank: Unroll, spec: EnvSpec) -> Unroll:
    """The piece as unrolls like `blank`; a ValueError or TypeError if these environments never gave it."""
    unroll = Unroll(**piece)
    for name, mine, other in zip(Unroll._fields, unroll, blank, strict=True):
        batch_axis = 0 if name in BY_UNROLL else 1
        shapes = [[*x.shape[:batch_axis], *x.shape[batch_axis + 1 :]] for x in (mine, other)]
        if mine.dtype != other.dtype or mine.dim() != other.dim() or shapes[0] != shapes[1]:
            raise ValueError(f"its {name} has another shape or type")
    if len({x.shape[0 if k in BY_UNROLL else 1] for k, x in piece.items()}) != 1:
        raise ValueError("its parts are not of equally many unrolls")
    _refuse_impossible(unroll, spec)
    return unroll


def _refuse_impossible(unroll: Unroll, spec: EnvSpec) -> None:
    """What would be an index out of range, or no number."""
    space, num_actions = spec.observation_space, spec.num_actions
    if not _within(unroll.action, 0, num_actions):
        raise ValueError(f"its action is none of {num_actions}")
    if not _within(unroll.previous_action, -1, num_actions):
        raise ValueError(f"its previous_action is none of {num_actions}")
    if isinstance(space, Discrete) and not _within(unroll.observation, 0, int(space.n)):
        raise ValueError(f"its observation is none of {space.n}")
    if not bool(unroll.reward.isfinite().all()):
        raise ValueError("its reward is not finite")


def _within(numbers: Tensor, least: int, end: int) -> bool:
    """Whether least <= all of them < end."""
    return bool(((numbers >= least) & (numbers < end)).all())
