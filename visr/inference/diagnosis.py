"""How far to trust a task of the replay learner: what carries its reward, and what to expect."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.envs.episodes import EpisodeSteps
from visr.envs.grid.world import GridWorld
from visr.inference.policy_prediction import ValuePrediction, predict
from visr.inference.recording import Recording
from visr.storage.records.library import Library
from visr.training.describe_library import in_words

Floats = NDArray[np.float64]

_MOST_CARRIERS = 4
_LEAST_SHARE = 0.05


@dataclass(frozen=True)
class Diagnosis:
    """What is known of a task before it is played."""

    carriers: tuple[tuple[str, float], ...]
    """Features with names, and the reward of each relative to the largest; empty where they have none."""
    similar: str
    """The task of the library whose w is most like this one."""
    cosine: float
    """Of these two w."""
    prediction: ValuePrediction | None
    """None where states have no numbers, features are not of states, or no steps are known."""

    @property
    def words(self) -> list[str]:
        """One sentence for each part that is known."""
        found = []
        if self.carriers:
            listed = ", ".join(f"{name}: {share:.2f}" for name, share in self.carriers)
            found.append(f"What carries the reward: {listed}.")
        if self.similar:
            found.append(f"Most similar practised task: {self.similar} (cosine {self.cosine:.2f}).")
        if (known := self.prediction) is not None:
            found.append(
                f"Predicted: {known.fraction_of_best:.2f} of the best that planning on known steps finds "
                "(0 is a random policy)."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """As `visr infer --json` prints it."""
        known = self.prediction
        return {
            "carriers": dict(self.carriers),
            "similar": self.similar,
            "cosine": self.cosine,
            "predicted_fraction": None if known is None else known.fraction_of_best,
            "predicted_value": None if known is None else known.value,
        }


def diagnose(
    agent: ReplaySuccessorFeatures,
    w: Floats,
    library: Path,
    steps: EpisodeSteps | None,
    reward: Floats | None,
    planes: list[str],
) -> Diagnosis:
    """The diagnosis of a task; steps with the asked reward give a prediction, `planes` name events."""
    rows = agent.known_tasks.cpu().numpy().astype(np.float64)
    cosines = rows @ w / np.maximum(np.linalg.norm(rows, axis=1), 1e-9)
    best = int(cosines.argmax())
    known = Library.load(library).tasks if library.exists() else ()
    names = {task.row: task.name for task in known}
    prediction = None
    # On vectors the projection on the features makes V too inexact to compare policies.
    has_numbers = isinstance(agent.spec.observation_space, spaces.Discrete)
    if has_numbers and agent.features_of_states and steps is not None and reward is not None:
        prediction = predict(agent, w, steps, reward, agent.config.gpi)
    carriers = _carriers(agent, w, planes)
    return Diagnosis(carriers, names.get(best, ""), float(cosines[best]), prediction)


def _carriers(
    agent: ReplaySuccessorFeatures, w: Floats, planes: list[str]
) -> tuple[tuple[str, float], ...]:
    """The features with the largest rewards per event."""
    names = [in_words(name, planes) for name in agent.chi.names()]
    if not names:
        return ()
    scale = getattr(agent.chi, "scale", None)
    each = w if scale is None else w / scale.cpu().numpy()
    each = np.where([bool(name) for name in names], each, 0.0)
    shares = each / max(float(np.abs(each).max()), 1e-12)
    order = np.argsort(-np.abs(shares))[:_MOST_CARRIERS]
    return tuple((names[i], float(shares[i])) for i in order if abs(shares[i]) >= _LEAST_SHARE)


def steps_of_world(world: GridWorld) -> EpisodeSteps:
    """One step from every free cell by every action."""
    cells = np.flatnonzero(world.free)
    count = world.transitions.shape[1]
    here, action = np.repeat(cells, count), np.tile(np.arange(count), len(cells))
    none = np.zeros(len(here), dtype=np.float32)
    return EpisodeSteps(np.arange(len(here)), here, action, world.transitions[here, action], none)


def steps_of_recording(agent: ReplaySuccessorFeatures, recorded: Recording) -> EpisodeSteps:
    """The recorded steps; the feature of the end tells which of them ended an episode."""
    steps = recorded.steps()
    if agent.chi.end is None:
        return steps
    return steps._replace(terminated=recorded.phi[:, agent.chi.end] > 0)
