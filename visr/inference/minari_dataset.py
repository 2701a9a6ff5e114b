"""Steps of a Minari dataset, which holds episodes of one environment."""

from __future__ import annotations

from typing import Any

import numpy as np

from visr.envs.spaces import SpaceCodec
from visr.errors import UserError
from visr.inference import dataset
from visr.inference.dataset import StepDataset


def read(name: str, codec: SpaceCodec) -> StepDataset:
    """All episodes of a dataset on this machine, or one that Minari downloads."""
    try:
        import minari
    except ImportError as error:
        raise UserError('Minari datasets need minari: pip install "visr[offline]".') from error
    try:
        episodes = list(minari.load_dataset(name, download=False).iterate_episodes())
    except Exception as error:  # Minari raises many kinds
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(
            f"Cannot read the Minari dataset {name!r} ({reason}); `minari download {name}` gets one."
        ) from error
    if not episodes:
        raise UserError(f"The Minari dataset {name!r} has no episodes.")
    parts = [_episode(name, episode, codec) for episode in episodes]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    arrays["episodes"] = np.repeat(np.arange(len(parts)), [len(p["rewards"]) for p in parts])
    return dataset.from_arrays(name, arrays, codec)


def _episode(name: str, episode: Any, codec: SpaceCodec) -> dict[str, np.ndarray]:
    """Arrays of one episode, [T, ...] each; Minari stores T + 1 observations."""
    try:
        observations = codec.encode(episode.observations)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise UserError(
            f"The observations of {name!r} are not those of this environment ({error})."
        ) from error
    return {
        "observations": observations[:-1],
        "next_observations": observations[1:],
        "actions": np.asarray(episode.actions),
        "rewards": np.asarray(episode.rewards, dtype=np.float64),
        "terminations": np.asarray(episode.terminations, dtype=bool),
        "truncations": np.asarray(episode.truncations, dtype=bool),
    }
