"""Recorded reward-free steps of a run: a new reward labels them, without a step of the environment."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import safetensors
import safetensors.numpy
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from visr import envs, strict_json
from visr.agents.base import BehaviourModel
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.config import RunConfig
from visr.envs.episodes import EpisodeSteps, TaskSchedule, play_episodes
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError
from visr.inference import asked_reward, collect
from visr.inference.steps import RewardedSteps
from visr.storage import schema
from visr.storage.files import read_checked_arrays, tensor_metadata, write_tensors
from visr.storage.records.task import RewardFunction
from visr.training import devices, progress
from visr.types import Unroll

_NUM_ENVS = 32
_NOTE_EVERY = 100
"""Rounds of all environments between two notes."""
_LARGEST = 2**28
"""Bytes of observations: a quarter of a gigabyte."""
_NUM_CHECKED = 32
"""Steps of a kept recording whose features are computed again."""
_METADATA = ("names", "num_steps")
"""Fields that are not arrays."""


@dataclass(frozen=True, eq=False)
class Recording:
    """Steps of the trained agent under its own tasks; rewards were neither used nor kept."""

    before: NDArray
    """[N, ...], observations."""
    action: NDArray[np.int64]
    """[N]"""
    reached: NDArray
    """[N, ...], the next observations."""
    phi: NDArray[np.float32]
    """[N, d], of the next observations."""
    episode: NDArray[np.intp]
    """[N]"""
    names: list[str]
    """Of the numbers in an observation."""
    num_steps: int | None = None
    """Steps that had trained the agent; unknown in files of older versions."""
    terminated: NDArray[np.bool_] | None = None
    """[N]: the episode ended there, and not by a limit of time; unknown in files of older versions."""

    def rewarded(self, reward: str | RewardFunction, codec: SpaceCodec) -> RewardedSteps:
        """The steps with the rewards that an expression or a function gives them."""
        if isinstance(reward, str):
            labels = asked_reward.of_expression(reward, self.steps(), codec)
        else:
            labels = asked_reward.of_function(reward, self.steps())
        return RewardedSteps(self.phi, labels, self.episode)

    def steps(self) -> EpisodeSteps:
        """All steps, with rewards of 0."""
        none = np.zeros(len(self.action), dtype=np.float32)
        return EpisodeSteps(self.episode, self.before, self.action, self.reached, none)

    def in_order(self) -> Recording:
        """The same steps, episode after episode; they were recorded in many environments at once."""
        order = np.argsort(self.episode, kind="stable")
        return replace(self, **{name: array[order] for name, array in self._arrays().items()})

    def _arrays(self) -> dict[str, NDArray]:
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _METADATA}
        return {name: array for name, array in named.items() if array is not None}

    def save(self, path: Path) -> None:
        """Write one safetensors file."""
        plain = {name: np.ascontiguousarray(array) for name, array in self._arrays().items()}
        metadata = {"names": json.dumps(self.names)}
        if self.num_steps is not None:
            metadata["num_steps"] = str(self.num_steps)
        write_tensors(path, safetensors.numpy.save(plain, metadata=metadata))

    @classmethod
    def load(cls, path: Path) -> Recording:
        """Read and check a file that `save` wrote."""
        try:
            if path.stat().st_size > 4 * _LARGEST:  # observations twice, and the smaller rest
                raise ValueError(f"it is larger than {4 * _LARGEST:,} bytes")
            arrays, metadata = read_checked_arrays(path)
            names = schema.convert(strict_json.parse(metadata["names"]), tuple[str, ...], "names")
            recording = cls(**arrays, names=list(names), num_steps=num_steps_of(metadata))
            lengths = {len(array) for array in arrays.values()}
            wide = recording.reached.reshape(len(recording.action), -1).shape[1]
            if len(lengths) != 1 or wide != len(names):
                raise ValueError("its arrays do not fit together")
            if recording.terminated is not None and recording.terminated.dtype != np.bool_:
                raise ValueError("terminated is not true or false")
            if not np.isfinite(recording.phi).all():
                raise ValueError("its features hold NaN or infinity")
            return recording
        except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"{path} is damaged ({error}); remove it, and it will be recorded again."
            ) from None


def num_steps_of(metadata: Mapping[str, str]) -> int | None:
    """The step of the agent that recorded a file, from the metadata of the file."""
    if "num_steps" not in metadata:
        return None
    return schema.convert(strict_json.parse(metadata["num_steps"]), schema.Count, "num_steps")


def is_possible(space: spaces.Space, num_steps: int) -> bool:
    """Whether that many observations are small enough to keep: numbers and vectors are, images are not."""
    if isinstance(space, spaces.Discrete):
        return True
    is_vector = isinstance(space, spaces.Box) and len(space.shape) == 1
    return is_vector and 8 * num_steps * int(np.prod(space.shape or ())) <= _LARGEST


@torch.inference_mode()
def record(
    agent: BehaviourModel,
    config: RunConfig,
    num_steps: int,
    seed: int = 0,
    note: Callable[[int], None] = lambda num_steps: None,
    num_episodes: int | None = None,
) -> Recording:
    """Play with a new task every 40 steps, as in training, and keep everything but rewards.

    `note` is called with the number of steps recorded so far. With `num_episodes` each of as many
    environments plays one episode.
    """
    env = envs.make_vec(config, num_episodes or min(_NUM_ENVS, num_steps))
    random = torch.Generator().manual_seed(seed)
    actor = EpsilonGreedyActor(agent, env.num_envs, epsilon=config.agent.epsilon, random=random)
    kept: list[EpisodeSteps] = []
    phi: list[NDArray[np.float32]] = []

    def keep(steps: EpisodeSteps) -> None:
        kept.append(steps)
        phi.append(collect.step_features(agent, steps))
        if len(kept) % _NOTE_EVERY == 0:
            note(sum(len(part.action) for part in kept))

    schedule = TaskSchedule(collect.own_tasks(agent, seed), config.training.unroll_length)
    with devices.threads(config.training):
        play_episodes(
            actor,
            env,
            schedule,
            num_episodes or num_steps,
            seed=seed,
            max_steps=num_steps,
            on_step=keep,
        )
    env.close()
    note(num_steps)

    def joined(arrays: Iterable[NDArray]) -> NDArray:
        return np.concatenate(list(arrays))[:num_steps]

    return Recording(
        before=joined(steps.observation for steps in kept),
        action=joined(steps.action for steps in kept),
        reached=joined(steps.next_observation for steps in kept),
        phi=joined(phi),
        episode=joined(steps.episode for steps in kept),
        names=envs.space_codec(config).field_names,
        terminated=joined(np.asarray(steps.terminated) for steps in kept),
    )


@torch.inference_mode()
def of_unrolls(agent: BehaviourModel, config: RunConfig, unrolls: Unroll) -> Recording:
    """Steps that training recorded, unroll after unroll; each reset begins another episode."""
    observation, is_reset = unrolls.observation.transpose(0, 1), unrolls.is_reset.T
    kept, starts = ~is_reset, is_reset.clone()
    starts[:, 0] = True
    episode = starts.flatten().cumsum(0).view(kept.shape)[kept] - 1
    before, reached = observation[:, :-1][kept], observation[:, 1:][kept]
    terminated = unrolls.terminated.T[kept].numpy()
    return Recording(
        before=before.numpy(),
        action=unrolls.action.T[kept].numpy(),
        reached=reached.numpy(),
        phi=collect.features(agent, reached.numpy(), before.numpy(), terminated),
        episode=episode.numpy(),
        names=envs.space_codec(config).field_names,
        terminated=terminated,
    )


# ---- the recording that a run keeps: features of an earlier or a later agent do not fit


def is_of(path: Path, num_steps: int) -> bool:
    """Whether a file holds steps of the agent of that step; a file that names no step does."""
    return path.exists() and _stored(path) in (None, num_steps)


def keep(recorded: Recording, path: Path, num_steps: int) -> Recording:
    """Write a recording of the agent of that step, unless that of a later one is there.

    Then the newest checkpoint could not be read; it may be readable again.
    """
    recorded = replace(recorded, num_steps=num_steps)
    if not path.exists() or (_stored(path) or 0) <= num_steps:
        recorded.save(path)
    return recorded


def kept(path: Path, agent: BehaviourModel, config: RunConfig, num_steps: int) -> Recording:
    """The recording of the agent of that step: from the file, or recorded now."""
    if is_of(path, num_steps):
        recorded = Recording.load(path)
        if _fits(recorded, agent):
            return recorded
    if not can_record(agent, config):
        raise UserError(
            f"No sample of {config.env} was kept, as its observations are large or recorded_steps "
            "is 0; use --reward env, or an .npz file of observations and rewards."
        )
    count = config.inference.recorded_steps
    note = progress.counted_steps("recording a sample, once", count)
    recorded = record(agent, config, count, note=note)
    return keep(recorded, path, num_steps)


def _fits(recorded: Recording, agent: BehaviourModel) -> bool:
    """Whether the features are this agent's; a packed model may be another one after an update of visr.

    Half of them must agree: which steps ended an episode is not kept, and changes phi of some agents.
    """
    steps = recorded.steps()
    before, reached = steps.observation[:_NUM_CHECKED], steps.next_observation[:_NUM_CHECKED]
    phi, kept = collect.features(agent, reached, before), recorded.phi[:_NUM_CHECKED]
    if phi.shape != kept.shape:
        return False
    return bool(np.isclose(phi, kept, rtol=1e-3, atol=1e-3).all(axis=1).mean() >= 0.5)


def can_record(agent: BehaviourModel, config: RunConfig) -> bool:
    """Whether steps can be recorded now."""
    num_steps = config.inference.recorded_steps
    return num_steps > 0 and is_possible(agent.spec.observation_space, num_steps)


def _stored(path: Path) -> int | None:
    """The step that a file names, if it can be read; `Recording.load` says what is damaged."""
    try:
        return num_steps_of(tensor_metadata(path))
    except (OSError, ValueError):
        return None
