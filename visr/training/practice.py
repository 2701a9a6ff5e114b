"""Which tasks the replay learner's environments pursue, and how far the agent controls each event."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Generator, Tensor

from visr.agents import task_sampling
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.agents.task_sampling import Recorded
from visr.networks.transition_features.base import of_unroll
from visr.types import Pursuit, Unroll

_EPSILONS = (0.02, 0.1, 0.3)
_RANDOM_SHARE = 0.2
_NEW_TASK = 1 / 3
"""Probability that an environment gets another task after an unroll."""
_AMONG = 6
_LEAST_STEPS = 1_500
"""Steps of pursuit before the lift of an event counts."""


class EventCounts(NamedTuple):
    """How often one event happened while it was pursued."""

    num_pursued: int
    """Steps that pursued it."""
    pursued: float | None
    """Share of these steps in which it happened; None without such steps."""
    lift: float | None
    """That share over the share of the other steps; None until enough steps pursued it."""


class Practice:
    """Tasks w [B, d] and epsilons [B] of the environments; counts of events, pursued and not."""

    def __init__(self, agent: ReplaySuccessorFeatures, num_envs: int) -> None:
        self._agent, d = agent, agent.task_size
        self.w, self.epsilon = torch.zeros(num_envs, d), torch.ones(num_envs)
        self._event = torch.full((num_envs,), -1)
        """[B], the event that each environment pursues; -1 for none."""
        self._counts = torch.zeros(4, d, dtype=torch.float64)
        """Events while pursued, those steps, events otherwise, those steps."""

    @property
    def pursuit(self) -> Pursuit:
        """Tasks and epsilons, for the actors."""
        return Pursuit(self.w, self.epsilon)

    def forget(self) -> None:
        """Start again with random actions: the features have changed."""
        self.w.zero_()
        self.epsilon.fill_(1.0)
        self._event.fill_(-1)
        self._counts.zero_()
        self._agent.lift.fill_(2.0)
        self._agent.rate.zero_()

    def choose(self, recorded: Recorded, rng: Generator) -> None:
        """New tasks and epsilons for about a third of the environments, and for all that have none."""
        count = len(self.w)
        changes = torch.rand(count, generator=rng) < _NEW_TASK
        changes |= (self.w == 0).all(dim=1) & (self.epsilon >= 1)
        random = torch.rand(count, generator=rng) < _RANDOM_SHARE
        epsilons = torch.tensor(_EPSILONS)
        epsilon = epsilons[torch.randint(len(epsilons), (count,), generator=rng)]
        w = torch.where(random[:, None], 0.0, self._tasks(count, recorded, rng))
        self.w[changes] = w[changes]
        self.epsilon[changes] = torch.where(random, 1.0, epsilon)[changes]
        if self._agent.chi.counts_events:
            positive, which = self.w.max(dim=1)
            self._event = torch.where((positive > 0) & (self.epsilon < 1), which, -1)

    def _tasks(self, count: int, recorded: Recorded, rng: Generator) -> Tensor:
        """Events, or rare recorded steps and, where features tell it, staying alive: [N, d]."""
        agent = self._agent
        if agent.chi.counts_events:
            return task_sampling.scaled(task_sampling.events(agent, count, rng))
        w = task_sampling.scaled(task_sampling.rarest(agent, recorded, count, _AMONG)[:, 0])
        if agent.chi.constant is not None:
            lives = torch.rand(count, generator=rng) < 0.3
            w[lives] = task_sampling.scaled(task_sampling.constant_tasks(agent, count, rng)[lives])
        return w

    @torch.no_grad()
    def count(self, unroll: Unroll) -> None:
        """Count events by whether they were pursued, and update their rates and lifts."""
        agent = self._agent
        if not agent.chi.counts_events:
            return
        kept = ~unroll.is_reset
        happened = (agent.cumulant(of_unroll(unroll)) > 0).double()
        pursued = self._event.expand(kept.shape)[kept]
        mine = torch.nn.functional.one_hot(pursued + 1, agent.task_size + 1)[:, 1:].double()
        self._counts[0] += (happened * mine).sum(dim=0)
        self._counts[1] += mine.sum(dim=0)
        self._counts[2] += (happened * (1 - mine)).sum(dim=0)
        self._counts[3] += (1 - mine).sum(dim=0)
        seen, steps, others, other_steps = self._counts
        rate = others / other_steps.clamp(min=1)
        lift = (seen + 3) / (steps * rate + 3)
        known = steps >= _LEAST_STEPS
        agent.lift.copy_(torch.where(known, lift, 2.0))
        agent.rate.copy_((seen + others) / (steps + other_steps).clamp(min=1))

    def counts_of(self, feature: int) -> EventCounts:
        """The counts of one feature since the features changed."""
        seen, steps, _, _ = self._counts[:, feature].tolist()
        is_known = steps >= _LEAST_STEPS
        lift = float(self._agent.lift[feature]) if is_known else None
        return EventCounts(int(steps), seen / steps if steps else None, lift)

    def state(self) -> dict[str, Tensor]:
        """Tasks, epsilons, events and counts."""
        return {"w": self.w, "epsilon": self.epsilon, "event": self._event, "counts": self._counts}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        for name, mine in self.state().items():
            if tensors[name].shape != mine.shape or tensors[name].dtype != mine.dtype:
                raise ValueError(f"its practice.{name} has another shape or type")
        self.w, self.epsilon = tensors["w"].clone(), tensors["epsilon"].clone()
        self._event, self._counts = tensors["event"].clone(), tensors["counts"].clone()
