"""Check what a user's environment raises and returns; name the environment in every error."""

from __future__ import annotations

import contextlib
import difflib
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from visr.errors import UserError


@contextlib.contextmanager
def env_errors(env: str) -> Iterator[None]:
    """Turn any exception of an environment's code into one sentence with its file and line."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = " ".join(f"{type(error).__name__}: {error}".split()).rstrip(".")
        raise UserError(
            f"The environment {env} failed with {reason[:300]} ({Path(where.filename).name}, line "
            f"{where.lineno}); mend it, then go on: what was saved is kept."
        ) from error


def check_in_space(env: str, space: spaces.Space, observation: NDArray) -> None:
    """Refuse observations [B, ...] of another shape than their space, and states outside of it."""
    if observation.shape[1:] != space.shape:
        raise UserError(
            f"The environment {env} changed its observations from shape {space.shape} to "
            f"{observation.shape[1:]}; visr needs one shape throughout, so pad or crop them in a wrapper."
        )
    if not isinstance(space, spaces.Discrete):
        return
    lowest, highest = int(observation.min()), int(observation.max())
    if lowest < 0 or highest >= space.n:
        raise UserError(
            f"The environment {env} is in state {lowest if lowest < 0 else highest}, but promised states 0 "
            f"to {space.n - 1}; mend its observation_space."
        )


def check_finite(env: str, names: Sequence[str], observation: NDArray) -> None:
    """Refuse NaN and infinity in observations [B, fields]."""
    bad = np.argwhere(~np.isfinite(observation))
    if len(bad):
        value, name = observation[tuple(bad[0])], names[bad[0][1]]
        raise UserError(
            f"The environment {env} returned {value} as {name!r}; mend it (`visr doctor` counts such "
            "numbers), then go on: what was saved is kept."
        )


def unknown_env(id: str, known: Iterable[str]) -> str:
    """One sentence that names the nearest of the known ids."""
    names = {name.lower(): name for name in known}
    close = " or ".join(
        repr(names[name]) for name in difflib.get_close_matches(id.lower(), names, n=3)
    )
    hint = (
        f"did you mean {close}?"
        if close
        else "check its spelling and that its package is installed;"
    )
    return f"Unknown environment {id!r}: {hint} `visr list envs` names those that work."
