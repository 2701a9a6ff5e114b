"""Recorded steps from outside: .npz files and Minari datasets, checked against an environment's spaces.

An .npz file holds `observations`, and any of `actions`, `rewards`, `terminations`, `truncations`,
`next_observations` and `episodes`. Step t leads from observation t to the next one:

- with `next_observations` [N, ...], every row is a step of its own;
- with N + 1 observations for N rewards or actions, the next row is the next observation;
- with N observations and `actions`, `terminations` or `truncations` too;
- in both, a step whose next row belongs to another episode is left out: its next observation is missing;
- with `observations` and `rewards` alone, each observation is the state that its reward was given for.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from gymnasium import spaces
from numpy.lib import format as npy
from numpy.typing import NDArray

from visr.agents.base import BehaviourModel
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError, reason_of
from visr.inference.collect import features, of_agent
from visr.inference.steps import RewardedSteps
from visr.storage.files import reading

_LARGEST = 2**30
"""Bytes of a dataset, unpacked."""
_EPISODE_LENGTH = 100
"""Steps that count as an episode where the file names no episodes."""
_PER_STEP = ("actions", "rewards", "terminations", "truncations", "episodes")
_ENDS = "name it `terminations`, or `truncations` where only a limit of time ended the episode"
_OTHER_NAMES = {
    **dict.fromkeys(("done", "dones", "terminals", "terminated"), _ENDS),
    **dict.fromkeys(("timeouts", "truncated"), "name it `truncations`"),
    "next_obs": "name it `next_observations`",
}
"""Names that other formats give to what would be missed here."""
MINARI = "minari:"


@dataclass(frozen=True, eq=False)
class StepDataset:
    """N steps; what the file does not hold is None."""

    reached: NDArray
    """[N, ...], the next observations, as networks take them."""
    before: NDArray | None
    """[N, ...], the observations."""
    action: NDArray[np.int64] | None
    """[N], indices of actions."""
    reward: NDArray[np.float64] | None
    """[N]"""
    terminated: NDArray[np.bool_]
    """[N]"""
    episode: NDArray[np.intp]
    """[N]"""

    def features(self, agent: BehaviourModel) -> NDArray[np.float32]:
        """phi of the steps, [N, d]."""
        return features(agent, self.reached, self.before, self.terminated)

    def rewarded(self, agent: BehaviourModel, path: str | Path) -> RewardedSteps:
        """The steps with their rewards and features."""
        if self.reward is None:
            raise UserError(f"{path} has no array `rewards`; it needs observations and rewards.")
        steps = RewardedSteps(self.features(agent), self.reward, self.episode)
        return of_agent(steps, agent, self.before)


def read(source: str | Path, codec: SpaceCodec) -> StepDataset:
    """Steps from an .npz file, or from a Minari dataset by `minari:ID`."""
    if str(source).startswith(MINARI):
        return _read_minari(str(source).removeprefix(MINARI), codec)
    return from_arrays(source, read_arrays(source), codec)


def from_arrays(path: str | Path, arrays: dict[str, NDArray], codec: SpaceCodec) -> StepDataset:
    """The steps that the arrays of a file hold; a UserError names what does not fit."""
    if "observations" not in arrays:
        raise UserError(
            f"{path} has no array `observations`; it needs observations and rewards or actions."
        )
    for name in sorted(arrays.keys() & _OTHER_NAMES.keys()):
        raise UserError(f"{path} has an array `{name}`, which is not read; {_OTHER_NAMES[name]}.")
    if not arrays["observations"].ndim:
        raise UserError(f"{path} is no array of observations; it needs one row for every step.")
    observations, count = arrays["observations"], _num_steps(path, arrays)
    rest = {name: arrays[name] for name in _PER_STEP if name in arrays}
    episode = _episodes(path, rest, count)
    reached, before, kept = observations, None, np.arange(count)
    if "next_observations" in arrays:
        reached, before = arrays["next_observations"], observations
    elif len(observations) == count + 1:
        is_inside = np.append(episode[:-1] == episode[1:], True)
        kept = np.flatnonzero(is_inside[:count])
        reached, before = observations[kept + 1], observations[kept]
    elif set(rest) - {"rewards", "episodes"}:
        kept = np.flatnonzero(episode[:-1] == episode[1:])
        reached, before = observations[kept + 1], observations[kept]
    terminated = rest.get("terminations", np.zeros(count, dtype=bool)).astype(bool)
    actions, rewards = rest.get("actions"), rest.get("rewards")
    return StepDataset(
        reached=_encoded(path, reached, len(kept), codec),
        before=None if before is None else _encoded(path, before, len(kept), codec),
        action=None if actions is None else _actions(path, actions, codec)[kept],
        reward=None if rewards is None else _rewards(path, rewards)[kept],
        terminated=terminated[kept],
        episode=episode[kept],
    )


def _num_steps(path: str | Path, arrays: dict[str, NDArray]) -> int:
    """The common length of the arrays that hold one entry for every step."""
    for name in _PER_STEP:
        if name in arrays and not arrays[name].ndim:
            raise UserError(f"{path}: {name} must be one number for every step.")
    lengths = {name: len(arrays[name]) for name in _PER_STEP if name in arrays}
    observations = arrays["observations"]
    rows = len(observations) if observations.ndim else 0
    if "next_observations" in arrays:
        lengths["next_observations"] = len(np.atleast_1d(arrays["next_observations"]))
        lengths["observations"] = rows
    counts = set(lengths.values())
    if len(counts) > 1 or (counts and rows not in (min(counts), min(counts) + 1)):
        found = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UserError(
            f"{path} has observations of shape {observations.shape} and other arrays of other lengths "
            f"({found or 'none'}); each needs one entry for every step."
        )
    return min(counts) if counts else rows


def _episodes(path: str | Path, arrays: dict[str, NDArray], count: int) -> NDArray[np.intp]:
    """Which episode each step belongs to: as named, by its ends, or by groups of 100 steps."""
    ends = np.zeros(count, dtype=bool)
    for name in ("terminations", "truncations"):
        if name in arrays:
            if arrays[name].shape != (count,) or arrays[name].dtype.kind not in "biu":
                raise UserError(f"{path}: `{name}` must be true or false for every step.")
            ends |= arrays[name].astype(bool)
    if "episodes" in arrays:
        if arrays["episodes"].shape != (count,) or arrays["episodes"].dtype.kind not in "iu":
            raise UserError(f"{path}: `episodes` must be a whole number for every step.")
        return arrays["episodes"].astype(np.intp)
    if ends.any():
        return np.concatenate([[0], np.cumsum(ends)[:-1]]).astype(np.intp)
    if {"terminations", "truncations", "actions"} & set(arrays):
        return np.zeros(count, dtype=np.intp)  # one trajectory
    return np.arange(count) // _EPISODE_LENGTH


def _encoded(path: str | Path, given: NDArray, count: int, codec: SpaceCodec) -> NDArray:
    """Observations as networks take them, from the environment's own or already encoded ones."""
    space, own = codec.space, codec.own_space
    if given.dtype.kind not in "iufb":
        raise UserError(f"{path} holds something other than numbers; it needs arrays of numbers.")
    shape = space.shape or ()
    is_own = own.shape is not None and given.shape == (count, *own.shape)
    if given.shape != (count, *shape) and is_own:
        given = codec.encode(given)
    if given.shape != (count, *shape):
        raise UserError(
            f"{path} has observations of shape {given.shape}; this run needs "
            f"[{', '.join(['N', *map(str, shape)])}] for {count} steps."
        )
    if isinstance(space, spaces.Discrete) and not _lie_within(given, int(space.n)):
        raise UserError(f"{path}: observations must be whole numbers from 0 to {space.n - 1}.")
    with np.errstate(over="ignore"):
        encoded = given.astype(space.dtype)
    if encoded.dtype.kind == "f" and not np.isfinite(encoded).all():
        raise UserError(
            f"{path} has observations that are NaN, infinite or too large; remove them first."
        )
    return encoded


def _actions(path: str | Path, given: NDArray, codec: SpaceCodec) -> NDArray[np.int64]:
    """Actions as indices: given so, or as the environment's own actions."""
    count = len(codec.actions)
    if given.ndim == 1 and _lie_within(given, count):
        return given.astype(np.int64)
    if given.shape[1:] == codec.actions.shape[1:] and given.dtype.kind in "iuf":
        wide = given.reshape(len(given), 1, math.prod(given.shape[1:])).astype(np.float64)
        distance = np.abs(wide - codec.actions.reshape(1, count, -1)).sum(axis=2)
        if (distance.min(axis=1) < 1e-6).all():
            return distance.argmin(axis=1)
    raise UserError(
        f"{path}: actions must be whole numbers from 0 to {count - 1}, or the environment's own actions."
    )


def _rewards(path: str | Path, given: NDArray) -> NDArray[np.float64]:
    if given.ndim != 1 or given.dtype.kind not in "iufb":
        raise UserError(f"{path}: rewards must be one number for every step.")
    rewards = given.astype(np.float64)
    if not np.isfinite(rewards).all():
        raise UserError(f"{path} has rewards that are NaN or infinite; remove them first.")
    return rewards


def _lie_within(given: NDArray, count: int) -> bool:
    """Whether all are whole numbers from 0 to count - 1."""
    return given.dtype.kind in "iu" and bool(((given >= 0) & (given < count)).all())


def read_arrays(source: str | Path) -> dict[str, NDArray]:
    """The arrays of an .npz file; sizes are checked first, and nothing is unpickled."""
    path = Path(source)
    failures: tuple[type[Exception], ...] = (
        *(zipfile.BadZipFile, zlib.error, ValueError, EOFError, RuntimeError),
        *(NotImplementedError, MemoryError),
    )
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            if sum(member.file_size for member in members) > _LARGEST:
                raise UserError(
                    f"{path} would unpack to more than {_LARGEST:,} bytes; give a smaller one."
                )
            arrays: dict[str, Any] = {}
            for member in members:
                with archive.open(member) as file:
                    _check_header(file, member.file_size)
                with archive.open(member) as file:
                    name = member.filename.removesuffix(".npy")
                    arrays[name] = npy.read_array(file, allow_pickle=False)
            return arrays
    except failures as error:
        raise UserError(f"{path} is not an .npz file of plain arrays ({error}).") from None


def _check_header(file: IO[bytes], num_bytes: int) -> None:
    """Refuse a header that claims more than the file holds: numpy would allocate all of it."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, kind = read(file)
    if math.prod(shape) * kind.itemsize > num_bytes:
        raise ValueError(f"it promises an array of shape {shape} and holds {num_bytes:,} bytes")


# ---- Minari


def minari_spaces(name: str) -> tuple[spaces.Space, spaces.Space]:
    """The spaces of a dataset's observations and actions."""
    loaded = _load_minari(name, lambda found: found)
    return loaded.observation_space, loaded.action_space


def _load_minari(name: str, read: Callable[[Any], Any]) -> Any:
    """What `read` returns of a dataset on this machine."""
    try:
        import minari
    except ImportError as error:
        raise UserError('Minari datasets need minari: pip install "visr[offline]".') from error
    try:
        return read(minari.load_dataset(name, download=False))
    except Exception as error:  # Minari raises many kinds
        reason = reason_of(error)
        raise UserError(
            f"Cannot read the Minari dataset {name!r} ({reason}); `minari download {name}` gets one."
        ) from error


def _read_minari(name: str, codec: SpaceCodec) -> StepDataset:
    """All episodes of a dataset on this machine."""
    episodes = _load_minari(name, lambda found: list(found.iterate_episodes()))
    if not episodes:
        raise UserError(f"The Minari dataset {name!r} has no episodes.")
    parts = [_minari_episode(name, episode, codec) for episode in episodes]
    arrays = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    arrays["episodes"] = np.repeat(np.arange(len(parts)), [len(p["rewards"]) for p in parts])
    return from_arrays(name, arrays, codec)


def _minari_episode(name: str, episode: Any, codec: SpaceCodec) -> dict[str, np.ndarray]:
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
