"""The replay learner's library in words: each event or goal, how often it was reached, and its lift."""

from __future__ import annotations

import re

import numpy as np
import torch
from torch import Tensor

from visr import envs
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.config import RunConfig
from visr.networks.plane_trunk import PlaneTrunk
from visr.networks.transition_features.base import of_unroll
from visr.storage.records.library import Library, PractisedTask
from visr.training.practice import Practice
from visr.types import Transitions, Unroll

_LIKE = 0.9
"""Cosine of chi and the task above which a step counts as reaching the goal."""
_MOST_NUMBERS = 64


@torch.no_grad()
def describe(
    agent: ReplaySuccessorFeatures, config: RunConfig, recorded: Unroll, practice: Practice | None
) -> Library:
    """Words and counts from recorded steps; without practice (a dataset) nothing was pursued."""
    steps = of_unroll(recorded)
    chi = agent.cumulant(steps)
    names = envs.plane_names(config)
    if agent.chi.counts_events:
        tasks = _events(agent, chi, practice, names)
    else:
        width = config.grid.width if config.is_grid else 0
        tasks = _goals(agent, chi, steps, envs.space_codec(config).field_names, width)
    trunk = agent.psi.observation
    has_planes = isinstance(trunk, PlaneTrunk)
    plane = int(trunk.agent_plane) if has_planes else -1
    return Library(
        num_steps=len(chi),
        tasks=tuple(tasks),
        field_names=tuple(envs.space_codec(config).field_names[:_MOST_NUMBERS]),
        has_planes=has_planes,
        agent_plane=plane if plane >= 0 else None,
        agent_name=names[plane] if 0 <= plane < len(names) else "",
    )


def in_words(event: str, planes: list[str]) -> str:
    """An event's name with the environment's own names of planes."""

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return planes[number] if number < len(planes) else match[0]

    return re.sub(r"plane (\d+)", named, event)


def _events(
    agent: ReplaySuccessorFeatures, chi: Tensor, practice: Practice | None, planes: list[str]
) -> list[PractisedTask]:
    """One task for every row of the library; counts are those of the last stage."""
    words, happened = agent.chi.names(), (chi > 0).float().mean(dim=0)
    tasks = []
    for row, w in enumerate(agent.library):
        if not w.any():
            continue
        feature = int(w.abs().argmax())
        name = in_words(words[feature], planes) or f"feature {feature}"
        counts = None if practice is None else practice.counts_of(feature)
        is_avoided = bool(w[feature] < 0)
        tasks.append(
            PractisedTask(
                name=f"avoid: {name}" if is_avoided else name,
                kind="event",
                row=row,
                reached=float(happened[feature]),
                lift=None if counts is None or is_avoided else counts.lift,
                pursued=None if counts is None or is_avoided else counts.pursued,
                num_pursued=0 if counts is None or is_avoided else counts.num_pursued,
            )
        )
    return tasks


def _goals(
    agent: ReplaySuccessorFeatures,
    chi: Tensor,
    steps: Transitions,
    fields: list[str],
    grid_width: int,
) -> list[PractisedTask]:
    """The recorded step that is most like each task, and how many others are."""
    unit = chi / chi.norm(dim=1, keepdim=True).clamp(min=1e-6)
    tasks = []
    for row, w in enumerate(agent.library):
        if not w.any():
            continue
        constant = agent.chi.constant
        if constant is not None and w[constant].abs() > 0.9 * w.norm():
            name = "stay alive" if w[constant] > 0 else "end the episode soon"
            tasks.append(PractisedTask(name, "survival", row, 1.0))
            continue
        likeness = unit @ (w / w.norm())
        best = int(likeness.argmax())
        state = np.atleast_1d(steps.next_observation[best].numpy()).ravel().astype(np.float64)
        is_end = steps.terminated is not None and bool(steps.terminated[best])
        numbers = tuple(state.tolist()) if len(state) <= _MOST_NUMBERS else ()
        tasks.append(
            PractisedTask(
                name=_goal_name(numbers, fields, row, grid_width)
                + (", the episode ends" if is_end else ""),
                kind="goal",
                row=row,
                reached=float((likeness > _LIKE).float().mean()),
                observation=numbers,
            )
        )
    return tasks


def _goal_name(numbers: tuple[float, ...], fields: list[str], row: int, grid_width: int) -> str:
    if grid_width and numbers:
        return "cell {},{}".format(*divmod(int(numbers[0]), grid_width))
    if not numbers or len(fields) != len(numbers) or len(numbers) > 8:
        return f"goal {row + 1}"
    return ", ".join(f"{name} = {x:.3g}" for name, x in zip(fields, numbers, strict=True))
