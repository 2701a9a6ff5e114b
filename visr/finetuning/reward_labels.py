"""Rewards of recorded steps: the asked reward itself, or a model of it that rewarded steps train."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.agents.base import BehaviourModel
from visr.config import RunConfig
from visr.envs.episodes import EpisodeSteps
from visr.errors import UserError
from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.relabelling import RewardModel
from visr.inference import collect
from visr.inference.asked_reward import AskedReward
from visr.ops import derived_seed
from visr.ops.adam import Adam

_UPDATES, _BATCH, _RATE = 1_500, 256, 1e-3
_HELD_OUT = 0.1
_NEGLIGIBLE = 0.1
"""Predictions below this share of the smallest reward seen become 0: small errors of many steps add up."""
_AT_ONCE, _HIDDEN = 4_096, 64


@dataclass(frozen=True, eq=False)
class Labels:
    """The rewards of N steps."""

    reward: Tensor
    """[N]"""
    r_squared: float | None = None
    """Of a model, on held-out rewarded steps; None if the rewards are the asked ones."""

    @functools.cached_property
    def num_rewarded(self) -> int:
        """Steps whose reward is not the most common one."""
        return int((self.reward != self.reward.mode().values).sum())


def of_steps(
    steps: OfflineSteps,
    asked: AskedReward,
    agent: BehaviourModel,
    config: RunConfig,
    num_steps: int | None = None,
    seed: int = 0,
) -> Labels:
    """The asked reward of recorded steps; the environment's own is predicted from rewarded ones.

    By default the rewarded steps are those that `infer` plays for "env": the same agent, seed and number, so
    they are not new. `num_steps` plays so many instead.
    """
    if asked.kind != "env":
        return Labels(steps.labelled(asked.of))
    kept: list[EpisodeSteps] = []
    counts = (collect.NUM_EPISODES, collect.NUM_STEPS)
    num_episodes, most = counts if num_steps is None else (10**6, num_steps)
    collect.collect_rewarded(
        agent, config, num_episodes=num_episodes, num_steps=most, seed=seed, on_step=kept.append
    )
    return of_rewarded(steps, kept, agent, config, seed)


def of_rewarded(
    steps: OfflineSteps,
    kept: Sequence[EpisodeSteps],
    agent: BehaviourModel,
    config: RunConfig,
    seed: int = 0,
) -> Labels:
    """Rewards as a model predicts them that these rewarded steps train."""
    inputs, model = _events_model(agent, seed) or _observations_model(agent, seed)
    columns = (None if x[0] is None else np.concatenate(x) for x in zip(*kept, strict=True))
    played = EpisodeSteps(*columns)  # pyright: ignore[reportArgumentType]
    seen, reward = inputs(played), torch.from_numpy(played.reward).float()
    reward = reward.clamp(-1, 1) if config.inference.clip_rewards else reward
    if not bool(reward.any()):
        raise UserError(
            f"There was no reward in {len(reward):,} steps of the environment, so there is nothing to refine "
            "for; give more rewarded steps, or train longer."
        )
    rng = torch.Generator().manual_seed(derived_seed(seed, 10))
    held = _held_out(torch.from_numpy(played.episode), rng)
    _train(model, [x[~held] for x in seen], reward[~held], rng)
    sizes = reward[reward != 0].abs()
    least, most = float(sizes.min()), float(sizes.max())

    @torch.no_grad()
    def predicted(x: Sequence[Tensor]) -> Tensor:
        found = torch.cat(
            [model(*part) for part in zip(*(y.split(_AT_ONCE) for y in x), strict=True)]
        )
        return functional.hardshrink(found, _NEGLIGIBLE * least).clamp(-most, most)

    known = reward[held]
    error = (predicted([x[held] for x in seen]) - known).square().sum()
    spread = (known - known.mean()).square().sum()
    labels = torch.zeros(len(steps))
    for part, chunk in steps.chunks():
        labels[part] = predicted(inputs(chunk))
    return Labels(labels, float(1 - error / spread) if float(spread) else None)


Inputs = Callable[[EpisodeSteps], list[Tensor]]


def _observations_model(agent: BehaviourModel, seed: int) -> tuple[Inputs, nn.Module]:
    """r(s, a, s') from the observations."""

    def inputs(steps: EpisodeSteps) -> list[Tensor]:
        arrays = (steps.observation, steps.action, steps.next_observation)
        return [torch.from_numpy(array) for array in arrays]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, 11))
        return inputs, RewardModel(agent.spec)


def _events_model(agent: BehaviourModel, seed: int) -> tuple[Inputs, nn.Module] | None:
    """r of the events that the agent counts in a step, and of the action; None if it counts none."""
    if not agent.features_of_pairs:
        return None
    num_actions = agent.spec.num_actions

    def inputs(steps: EpisodeSteps) -> list[Tensor]:
        events = torch.from_numpy(collect.step_features(agent, steps))
        action = functional.one_hot(torch.from_numpy(steps.action).long(), num_actions)
        return [torch.cat([events, action.float()], dim=1)]

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(seed, 11))
        size = agent.task_size + num_actions
        layers = (nn.Linear(size, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _HIDDEN), nn.ReLU())
        return inputs, nn.Sequential(*layers, nn.Linear(_HIDDEN, 1), nn.Flatten(0))


def _held_out(episode: Tensor, rng: torch.Generator) -> Tensor:
    """[N] bool: a tenth of the episodes, or the last tenth of one."""
    _, number = episode.unique(return_inverse=True)
    order = torch.randperm(int(number.max()) + 1, generator=rng)
    held = order[number] < max(1, round(_HELD_OUT * len(order)))
    if bool(held.all()):
        held = torch.arange(len(episode)) >= (1 - _HELD_OUT) * len(episode)
    return held


def _train(model: nn.Module, seen: list[Tensor], reward: Tensor, rng: torch.Generator) -> None:
    """Squared error; half of every batch has a reward, with weights that undo this preference."""
    optimiser = Adam(model.parameters(), lr=_RATE)
    rewarded = torch.nonzero(reward)[:, 0]
    share = len(rewarded) / len(reward)
    half = _BATCH // 2
    for update in range(_UPDATES):
        for group in optimiser.param_groups:
            group["lr"] = _RATE * max(1 - update / _UPDATES, 0.02)
        i = torch.randint(len(reward), (_BATCH,), generator=rng)
        i[:half] = rewarded[torch.randint(len(rewarded), (half,), generator=rng)]
        is_rewarded = reward[i] != 0
        drawn = 0.5 * is_rewarded / share + 0.5  # how much likelier than uniform
        error = (model(*(x[i] for x in seen)) - reward[i]).square() / drawn
        optimiser.zero_grad()
        error.mean().backward()
        optimiser.step()
