"""The recording that a run keeps. It is of one agent: features of an earlier or a later one do not fit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from visr.agents.base import BehaviourModel
from visr.config import RunConfig
from visr.errors import UserError
from visr.inference import recording
from visr.inference.recording import Recording
from visr.storage.files import tensor_metadata


def is_of(path: Path, num_steps: int) -> bool:
    """Whether a file holds steps of the agent of that step; a file that names no step does."""
    return path.exists() and _stored(path) in (None, num_steps)


def save(recorded: Recording, path: Path, num_steps: int) -> Recording:
    """Write a recording of the agent of that step, unless that of a later one is there.

    Then the newest checkpoint could not be read; it may be readable again.
    """
    recorded = dataclasses.replace(recorded, num_steps=num_steps)
    if not path.exists() or (_stored(path) or 0) <= num_steps:
        recorded.save(path)
    return recorded


def load(path: Path, agent: BehaviourModel, config: RunConfig, num_steps: int) -> Recording:
    """The recording of the agent of that step: from the file, or recorded now."""
    if is_of(path, num_steps):
        return Recording.load(path)
    if not is_possible(agent, config):
        raise UserError(
            f"No sample of {config.env} was kept, as its observations are large or recorded_steps "
            "is 0; use --reward env, or an .npz file of observations and rewards."
        )
    recorded = recording.record(agent, config, config.inference.recorded_steps)
    return save(recorded, path, num_steps)


def is_possible(agent: BehaviourModel, config: RunConfig) -> bool:
    """Whether steps can be recorded now."""
    num_steps = config.inference.recorded_steps
    return num_steps > 0 and recording.is_possible(agent.spec.observation_space, num_steps)


def _stored(path: Path) -> int | None:
    """The step that a file names, if it can be read; `Recording.load` says what is damaged."""
    try:
        return recording.num_steps_of(tensor_metadata(path))
    except (OSError, ValueError):
        return None
