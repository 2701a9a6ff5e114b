"""The goal prompt: be in states like this one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from visr.agents.base import BehaviourModel
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError, short_repr
from visr.inference import asked_reward
from visr.inference.collect import features
from visr.inference.compare_methods import compare_methods, fit_along
from visr.inference.grid_rewards import read_array
from visr.inference.recording import Recording
from visr.inference.regression import Comparison, Estimate
from visr.inference.steps import RewardedSteps
from visr.storage.records.task import TaskPrompt

METHOD, WHITENED = "mode of q(w | goal)", "whitened"
_NEAREST = 20
"""Recorded states that stand for a goal of which only some numbers are given."""
_WIDTH = 0.5
"""Standard deviations of the recorded states at which a state is half as close as the goal itself."""
_FAR = 1.0
"""Standard deviations beyond which the goal is unlike everything that was recorded."""


@dataclass(frozen=True, eq=False)
class Goal:
    """States to be in: w is the normalised mean of phi over them, for one state the mode of q(w | s)."""

    name: str
    states: NDArray
    """[k, ...], as networks take them."""
    wanted: TaskPrompt
    """The numbers that the goal names, for the asked return; no data for images."""
    distance: float | None = None
    """From the goal to the nearest recorded state, in standard deviations."""

    def record(self) -> TaskPrompt:
        """The numbers of the goal."""
        return self.wanted

    def infer(self, model: BehaviourModel, data: Callable[[], RewardedSteps]) -> Comparison:
        """w = phi(goal), and regressions on the closeness to the goal if steps were recorded.

        Of these, whitened regression reached goals best: .74 and .27 of optimal on goals of the packed grid
        and four rooms, where phi(goal) reached .39 and .14.
        """
        if model.features_of_pairs:
            raise UserError(
                "The features of this agent are events between two observations, so one observation is no "
                "goal; describe a reward or show a demonstration."
            )
        phi = features(model, self.states)
        w = phi.mean(axis=0).astype(np.float64)
        length = float(np.linalg.norm(w))
        w, size = w / max(length, 1e-9), len(w)
        words = []
        if len(phi) > 1:
            cosine = float((phi @ w / np.maximum(np.linalg.norm(phi, axis=1), 1e-9)).mean())
            words.append(
                f"{len(phi)} recorded states stand for the goal; the cosine of their phi with its "
                f"mean is {cosine:.2f} (1: all point the same way)."
            )
        others = None
        counts, r_squared = (len(phi), 1, len(phi)), 0.0
        if "columns" in self.wanted.data:
            steps = data()
            counts = (steps.num_steps, steps.num_episodes, steps.num_rewarded)
            r_squared = fit_along(w, steps)[1]
            words.append(_seen(self.distance, float(steps.reward.mean())))
            if not steps.is_constant:
                others = compare_methods(steps)
        mode = Estimate(
            METHOD, w, r_squared, np.inf, np.full(size, np.sqrt(1 - min(length, 1) ** 2))
        )
        estimates = {METHOD: mode, **(others.estimates if others else {})}
        validations = others.validations if others else {}
        best = WHITENED if WHITENED in estimates else METHOD  # forward-backward: z = B(goal)
        return Comparison(estimates, best, *counts, validations, words)


def _seen(distance: float | None, mean: float) -> str:
    """How familiar the goal is, from the recorded steps."""
    known = f"Recorded steps are {mean:.3f} close to it on average (1: at the goal)."
    if distance is None or distance <= _FAR:
        return known
    return f"No recorded state is near it ({distance:.1f} standard deviations), so this is a guess. {known}"


def of_observation(
    name: str, state: NDArray, recorded: Recording | None, codec: SpaceCodec
) -> Goal:
    """A goal that is a whole observation, [...] as networks take it."""
    if isinstance(codec.space, spaces.Box) and len(codec.space.shape) > 1:
        return Goal(name, state[None], TaskPrompt("goal", name))  # an image
    values = np.atleast_1d(state).astype(np.float64)
    columns = np.arange(len(values), dtype=np.float64)
    return _with_distance(
        Goal(name, state[None], _wanted(name, values, columns, recorded)), recorded
    )


def of_fields(name: str, fields: dict[str, float], recorded: Recording) -> Goal:
    """A goal of which some numbers are given: the recorded states that are nearest in them."""
    found = [_column(field, recorded.names) for field in fields]
    columns = np.array(found, dtype=np.float64)
    wanted = _wanted(name, np.array(list(fields.values())), columns, recorded)
    distance = _distances(wanted, recorded)
    nearest = np.argsort(distance, kind="stable")[:_NEAREST]
    return replace(Goal(name, recorded.reached[nearest], wanted), distance=float(distance.min()))


def _column(field: str, names: list[str]) -> int:
    """The number of an observation that is called so: its name, pos[0] for pos_0, or x0 for the first."""
    spelt = re.sub(r"\[(\d+)\]$", r"_\1", field)
    if spelt in names:
        return names.index(spelt)
    match = re.fullmatch(r"x_?(\d{1,6})", spelt)
    if match is None or int(match[1]) >= len(names):
        raise UserError(
            f"The goal names {field!r}, which is no number of an observation: {', '.join(names)}."
        )
    return int(match[1])


def parse(text: str, codec: SpaceCodec, recording: Callable[[], Recording]) -> Goal:
    """`x0=0.5,x1=0`, FILE.npy, `step:1234` of the recording, or a state's number."""
    text = text.strip()
    if text.lower().endswith(".npy"):
        return of_observation(
            Path(text).name, _state(read_array(text), codec), _try(recording), codec
        )
    if match := re.fullmatch(r"step:(\d{1,12})", text):
        recorded, index = recording().in_order(), int(match[1])
        if index >= len(recorded.action):
            raise UserError(
                f"{text!r} is not recorded: steps go from 0 to {len(recorded.action) - 1}."
            )
        return of_observation(text, recorded.reached[index], recorded, codec)
    if isinstance(codec.space, spaces.Discrete) and text.isdecimal():
        return of_observation(text, _state(np.array(int(text[:12])), codec), _try(recording), codec)
    fields = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\w+(?:\[\d+\])?)\s*==?\s*([-+\w.]+)\s*", part)
        number = _number(match[2]) if match else None
        if match is None or number is None:
            raise UserError(
                f"Cannot read the goal {short_repr(text)}: write numbers of an observation as "
                '"x0=0.5,x1=0", name a FILE.npy with an observation, or step:1234 of the recording.'
            )
        field, number = _one_hot(match[1], number, codec.own_space)
        if field in fields:
            raise UserError(f"The goal {short_repr(text)} names {field} twice; give one number.")
        fields[field] = number
    return of_fields(text, fields, recording())


def _one_hot(field: str, number: float, space: spaces.Space) -> tuple[str, float]:
    """`mode_1`, 1 for mode=1, if `mode` is a discrete part of a Dict; else what was given."""
    part = space.spaces.get(field) if isinstance(space, spaces.Dict) else None
    if not isinstance(part, spaces.Discrete):
        return field, number
    first, last = int(part.start), int(part.start + part.n) - 1
    if number not in range(first, last + 1):
        raise UserError(
            f"The goal names {field} = {number:g}; give a whole number from {first} to {last}."
        )
    return f"{field}_{int(number) - first}", 1.0


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if np.isfinite(value) else None


def _state(given: NDArray, codec: SpaceCodec) -> NDArray:
    """One observation from a file, in the form that networks take."""
    shape = codec.space.shape or ()
    is_state = given.shape == shape and given.dtype.kind in "iufb" and np.isfinite(given).all()
    if is_state and isinstance(codec.space, spaces.Discrete):
        is_state = given.dtype.kind in "iu" and 0 <= int(given) < codec.space.n
    if not is_state:
        raise UserError(
            f"The goal has shape {given.shape}, which is no observation of this environment: it needs "
            f"{codec.space}."
        )
    return given.astype(codec.space.dtype)


def _try(recording: Callable[[], Recording]) -> Recording | None:
    try:
        return recording()
    except UserError:  # images are not recorded
        return None


def _wanted(name: str, values: NDArray, columns: NDArray, recorded: Recording | None) -> TaskPrompt:
    """The goal's numbers with the width within which others count as close; 0 is equality."""
    width = np.full(len(values), 1e-3)
    if recorded is not None and recorded.reached.dtype.kind == "f":
        table = recorded.reached.reshape(len(recorded.action), -1)[:, columns.astype(np.intp)]
        spread = table.std(axis=0).astype(np.float64)
        width = _WIDTH * np.where(spread > 1e-9, spread, 1.0)
    elif recorded is None and values.dtype.kind == "f" and len(values) > 1:
        width = np.full(len(values), _WIDTH)
    return TaskPrompt("goal", name, {"observation": values, "columns": columns, "width": width})


def _distances(wanted: TaskPrompt, recorded: Recording) -> NDArray[np.float64]:
    """Root mean square over the goal's numbers, in standard deviations, to every recorded state."""
    table = recorded.reached.reshape(len(recorded.action), -1)
    scaled = table[:, wanted.data["columns"].astype(np.intp)] - wanted.data["observation"]
    return _WIDTH * np.sqrt(np.square(scaled / wanted.data["width"]).mean(axis=1))


def _with_distance(goal: Goal, recorded: Recording | None) -> Goal:
    if recorded is None or recorded.reached.dtype.kind != "f":
        return goal
    return replace(goal, distance=float(_distances(goal.wanted, recorded).min()))


def close_steps(goal: TaskPrompt, recorded: Recording) -> RewardedSteps:
    """The recorded steps, each with its closeness to the goal as its reward."""
    labels = asked_reward.closeness(goal, recorded.steps())
    return RewardedSteps(recorded.phi, labels, recorded.episode)
