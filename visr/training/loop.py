"""The training loop on one machine: actors run one round ahead of the learner."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, SupportsFloat

import torch
from torch import Tensor

from visr import agents, envs
from visr.agents.base import Agent
from visr.config.fields import RunConfig
from visr.ops import derived_seed
from visr.training import devices
from visr.training.actor_pool import make_actor_pools
from visr.training.learner import BatchQueue, Learner, Reducer, within
from visr.types import EnvSpec

if TYPE_CHECKING:
    from visr.training.online_evaluation import OnlineEvaluation


class Round(NamedTuple):
    """One round of acting and learning."""

    num_updates: int
    """Updates made in the run so far."""
    metrics: Sequence[Mapping[str, SupportsFloat]]
    """The metrics of every update of this round."""
    note: str = ""
    """What the job is doing while no step is counted."""
    share: float | None = None
    """Share of the work that is done; None where steps measure it."""


class Loop:
    """Actors, learner and the queue between them.

    In one round the learner consumes the waiting unrolls, 32 at a time, while every actor collects the next
    unroll with the weights from the start of the round. The lag and the order of unrolls are fixed, so
    results do not depend on the number of processes or on their speed.
    """

    replay = None
    """Unrolls are used once."""
    can_save_now = True

    def __init__(self, config: RunConfig, num_processes: int | None = None) -> None:
        devices.keep_freed_memory()
        self.config = config
        self.agent = devices.prepared(new_agent(config), config.training)
        self.learner = new_learner(config, self.agent)
        num_processes = num_processes or config.training.num_processes
        self.actor_pools = make_actor_pools(config, self.agent, num_processes)
        self.online = _online_evaluation(config, self.agent)
        self.num_collected_steps = 0
        self._batches = BatchQueue(self.learner, config.training.batch_size)

    def close(self) -> None:
        """End the acting processes."""
        for pool in self.actor_pools:
            pool.close()

    @property
    def num_steps(self) -> int:
        """Steps that the learner has consumed."""
        return steps_after(self.config, self.learner.num_updates)

    @property
    def total_steps(self) -> int:
        return self.config.training.num_steps

    @property
    def is_done(self) -> bool:
        """Whether all updates of the run have been made."""
        return self.learner.num_updates >= total_updates(self.config)

    def rounds(self) -> Generator[Round]:
        """Act and learn until done; the caller logs, saves and stops between rounds."""
        with devices.training_arithmetic(self.config.training):
            while not self.is_done:
                yield self._round()

    def _round(self) -> Round:
        pools = [] if self._has_enough() else self.actor_pools
        for pool in pools:
            pool.begin(self.agent.psi)
        if pools and self.online:
            self.online.play(self.agent)
        metrics = self._batches.learn()
        collected = [unroll for pool in pools for unroll in pool.collect()]
        self._batches.add(collected)
        self.num_collected_steps += sum(unroll.num_steps for unroll in collected)
        return Round(self.learner.num_updates, metrics)

    def _has_enough(self) -> bool:
        """Whether the waiting unrolls suffice for the updates that are left."""
        updates_left = total_updates(self.config) - self.learner.num_updates
        return self._batches.num_waiting >= updates_left * self.config.training.batch_size

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """Returns of the rewarded environments since the last call."""
        return {"online": self.online.row()} if self.online else {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All tensors and counts that a resumed run needs to continue identically."""
        tensors = {f"learner.{k}": v for k, v in self.learner.state().items()}
        for pool in self.actor_pools:
            tensors |= pool.state()
        if self.online:
            tensors |= {f"online.{k}": v for k, v in self.online.state().items()}
        tensors |= self._batches.state()
        counts = {"num_steps": self.num_collected_steps, "num_updates": self.learner.num_updates}
        return tensors, counts

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        self.num_collected_steps = counts["num_steps"]
        self.learner.load_state(within(tensors, "learner."), counts["num_updates"])
        for pool in self.actor_pools:
            pool.load_state(tensors, self.num_collected_steps)
        if self.online:
            self.online.load_state(within(tensors, "online."), self.num_collected_steps)
        self._batches.load_state(tensors)

    def reset_unsaveable_envs(self) -> None:
        for pool in self.actor_pools:
            pool.reset_unsaveable_envs(self.num_collected_steps)
        if self.online:
            self.online.reset_unsaveable_envs(self.num_collected_steps)


def _online_evaluation(config: RunConfig, agent: Agent) -> OnlineEvaluation | None:
    """The environments with rewards, if the run has any."""
    if not config.training.num_rewarded_envs:
        return None
    from visr.training.online_evaluation import OnlineEvaluation

    return OnlineEvaluation(config, agent)


def new_agent(config: RunConfig, spec: EnvSpec | None = None, seed: int | None = None) -> Agent:
    """An agent whose initial weights depend on nothing but the seed; by default for the run's spaces."""
    spec = spec or envs.spec(config)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derived_seed(config.training.seed, 0) if seed is None else seed)
        return agents.new(config.agent, spec, config.replay)


def new_learner(config: RunConfig, agent: Agent, all_reduce: Reducer | None = None) -> Learner:
    """The learner of a configuration; with `all_reduce`, one of several that share every batch."""
    return Learner(
        agent,
        total_updates(config),
        phi_updates=updates_until(config, config.agent.phi_num_steps),
        bonus_updates=updates_until(config, config.agent.bonus_num_steps),
        micro_batch=config.training.micro_batch,
        all_reduce=all_reduce,
    )


def total_updates(config: RunConfig) -> int:
    """Updates in the whole run."""
    return updates_until(config, config.training.num_steps)


def updates_until(config: RunConfig, num_steps: int) -> int:
    """Updates after which the learner has consumed `num_steps`."""
    training = config.training
    return math.ceil(num_steps / (training.batch_size * training.unroll_length))


def steps_after(config: RunConfig, num_updates: int) -> int:
    """Steps that the learner has consumed after `num_updates`."""
    return num_updates * config.training.batch_size * config.training.unroll_length
