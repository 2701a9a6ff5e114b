"""The replay learner's training: act, record, learn psi from everything recorded; in stages."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence

import torch
from torch import Tensor

from visr.agents import task_sampling
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.config.fields import RunConfig
from visr.ops import derived_seed
from visr.ops.adam import Adam
from visr.training import devices
from visr.training.actor_pool import ActorPool, make_actor_pools
from visr.training.exploring_actor import ExploringActor
from visr.training.learner import concatenate, within
from visr.training.loop import Round, new_agent
from visr.training.practice import Practice
from visr.training.recorded_steps import RecordedSteps, empty_unroll
from visr.types import Unroll

_WARM_UP = 200
"""Updates over which the learning rate rises at the start of a stage."""
_LAST_RATE = 0.01
"""Share of the learning rate that is left at the end."""
_FEWEST_TASKS = 4
_POOL = 1024
"""Practised tasks drawn at the start of a round; its updates choose among them."""


class ReplayLearning(ABC):
    """Recorded steps and the updates on them; a subclass says where the steps come from."""

    can_save_now = True
    recorded: RecordedSteps

    def __init__(self, config: RunConfig) -> None:
        devices.keep_freed_memory()
        self.config = config
        agent = devices.prepared(new_agent(config), config.training)
        assert isinstance(agent, ReplaySuccessorFeatures)
        self.agent = agent
        self._rng = torch.Generator().manual_seed(derived_seed(config.training.seed, 2))
        self._optimiser = self._new_optimiser()
        self.num_updates = 0
        self.stage = -1
        """The stage that learns now; -1 during the warm-up."""
        self._stage_began = 0
        """Updates before this stage."""

    @property
    @abstractmethod
    def num_steps(self) -> int:
        """Steps so far."""

    @property
    @abstractmethod
    def is_done(self) -> bool:
        """Whether all steps and updates have been made."""

    @property
    @abstractmethod
    def _progress(self) -> float:
        """The share of the updates that are due."""

    @abstractmethod
    def _round(self) -> Round:
        """Get steps, if there are more of them, and make the updates that are due."""

    @property
    def replay(self) -> RecordedSteps:
        """The recorded steps, saved in pieces."""
        return self.recorded

    @property
    def total_steps(self) -> int:
        return self.config.training.num_steps

    def rounds(self) -> Generator[Round]:
        with devices.training_arithmetic(self.config.training):
            while not self.is_done:
                yield self._round()

    def _chi(self, count: int, num_samples: int) -> Tensor:
        return self.recorded.stretches(self.agent, count, num_samples, self._rng)

    # ---- stages

    def _starts(self) -> list[float]:
        """The share of progress at which each stage begins: 0, ..., 1/9, 1/3."""
        count = self.config.replay.num_stages
        return [0.0, *(3.0 ** (k - count) for k in range(1, count))]

    def _stage_due(self) -> int:
        return sum(self._progress >= start for start in self._starts()) - 1

    def _begin_stage(self) -> None:
        """Fit the features to all that is recorded, and start psi with new weights."""
        self.stage, self._stage_began = self._stage_due(), self.num_updates
        seed = derived_seed(self.config.training.seed, 3, self.stage)
        fresh = new_agent(self.config, self.agent.spec, seed)
        assert isinstance(fresh, ReplaySuccessorFeatures)
        self.agent.start_afresh(fresh)
        self.agent.fit(self.recorded.sample(self._rng))
        self._optimiser = self._new_optimiser()

    # ---- learning

    def _learn(self, count: int) -> list[dict[str, Tensor]]:
        if count <= 0:
            return []
        self.agent.forget_fitted_library()
        size, num_steps = self._batch_sizes()
        pool = task_sampling.practised(self.agent, max(_POOL, size), self._chi, self._rng)
        metrics = []
        for _ in range(count):
            w = pool[torch.randint(len(pool), (size,), generator=self._rng)]
            batch = self.recorded.batch(self.agent, w, num_steps, self._rng)
            losses = self.agent.losses(batch)
            self._optimiser.zero_grad()
            losses.total.backward()
            for group in self._optimiser.param_groups:
                group["lr"] = self.config.agent.psi_learning_rate * self._rate_share()
            self._optimiser.step()
            self.agent.move_target()
            self.num_updates += 1
            metrics.append(losses.metrics)
        return metrics

    def _choose_library(self) -> None:
        """Draw the library; in the end fit its policies' last layers, too."""
        self.agent.library.copy_(task_sampling.library(self.agent, self._chi, self._rng))
        if self.is_done and (num_steps := self.config.replay.library_steps):
            self.agent.fit_library(self.recorded.sample(self._rng, num_steps))

    def _batch_sizes(self) -> tuple[int, int]:
        """Tasks and steps of an update: few events need few tasks, so that an update has more steps."""
        replay, chi = self.config.replay, self.agent.chi
        tasks, steps = replay.tasks_per_update, replay.transitions_per_update
        if not chi.counts_events:
            return tasks, steps
        fewer = min(tasks, max(_FEWEST_TASKS, chi.num_used // 2))
        return fewer, tasks * steps // fewer

    def _rate_share(self) -> float:
        """A short rise at the start of each stage; in the last stage a linear fall."""
        total, done = self.config.replay.num_updates, self.num_updates - self._stage_began
        rise = min(1.0, done / _WARM_UP + 0.01)
        if self.stage < self.config.replay.num_stages - 1:
            return rise
        left = 1 - done / max(total - self._stage_began, 1)
        return rise * max(left, _LAST_RATE)

    def _new_optimiser(self) -> Adam:
        agent = self.config.agent
        parameters = self.agent.parameter_groups()["psi"]
        return Adam(parameters, agent.psi_learning_rate, eps=agent.psi_adam_epsilon)

    def recording(self, num_steps: int) -> Unroll:
        """Some of the recorded steps, for later rewards."""
        rng = torch.Generator().manual_seed(derived_seed(self.config.training.seed, 4))
        return self.recorded.sample(rng, num_steps)

    # ---- saving

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """No tables of its own."""
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All tensors and counts that a resumed run needs, except the recorded steps."""
        tensors = {f"learner.agent.{k}": v for k, v in self.agent.state_dict().items()}
        tensors |= {f"learner.adam.{k}": v for k, v in self._optimiser.moments().items()}
        tensors["generator"] = self._rng.get_state()
        counts = {
            "num_steps": self.num_steps,
            "num_updates": self.num_updates,
            "stage": self.stage + 1,
            "stage_began": self._stage_began,
            "recorded": self.recorded.buffer.num_added,
        }
        return tensors, counts

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        self.num_updates = counts["num_updates"]
        self.stage, self._stage_began = counts["stage"] - 1, counts["stage_began"]
        self.agent.load_state_dict(within(tensors, "learner.agent."))
        self._optimiser = self._new_optimiser()
        self._optimiser.load_moments(within(tensors, "learner.adam."))
        self._rng.set_state(tensors["generator"])
        self.recorded.buffer.expect(counts["recorded"])


class ReplayLoop(ReplayLearning):
    """One round: the updates that are due, while the environments collect the next unrolls.

    They act with the weights and tasks of the start of the round, in this process or in others, so that
    results do not depend on the number of processes.
    """

    def __init__(
        self,
        config: RunConfig,
        num_processes: int | None = None,
        pools: Sequence[ActorPool] | None = None,
    ) -> None:
        """`pools` are the actors if they are not of this machine."""
        super().__init__(config)
        training, spec = config.training, self.agent.spec
        self.practice = Practice(self.agent, training.num_envs)
        example = empty_unroll(spec, training.unroll_length, self.agent.task_size)
        capacity = min(config.replay.buffer_steps, self._num_rounds * self._round_steps)
        self.recorded = RecordedSteps(
            capacity, example, spec.observation_space, are_stacks=config.is_atari
        )
        self._num_steps = self._num_collected = 0
        num_processes = num_processes or training.num_processes
        self.actor_pools = pools or make_actor_pools(
            config, self.agent, num_processes, ExploringActor, only_learns=True
        )

    def close(self) -> None:
        """End the acting processes and close the environments."""
        for pool in self.actor_pools:
            pool.close()

    @property
    def num_steps(self) -> int:
        """Steps that the updates so far were due for; a round's new ones count in the next."""
        return self._num_steps

    @property
    def _round_steps(self) -> int:
        return self.config.training.unroll_length * self.config.training.num_envs

    @property
    def _num_rounds(self) -> int:
        return math.ceil(self.config.training.num_steps / self._round_steps)

    @property
    def is_done(self) -> bool:
        """Whether all steps and updates have been made."""
        return self.num_steps >= self.total_steps

    @property
    def _progress(self) -> float:
        """The share of the steps after the warm-up that have been taken."""
        warm = min(self.config.replay.warmup_steps, max(self.total_steps - self._round_steps, 0))
        return min(max((self.num_steps - warm) / (self.total_steps - warm), 0.0), 1.0)

    def _round(self) -> Round:
        self._num_steps = self._num_collected
        due = round(self.config.replay.num_updates * self._progress)
        if due > self.num_updates and self.stage < self._stage_due():
            self._begin_stage()
            self.practice.forget()  # so that the first unrolls of a stage are random
        elif self.stage >= 0 and not self.is_done:
            self.practice.choose(self._chi, self._rng)
        pools = () if self.is_done else self.actor_pools
        for pool in pools:
            pool.begin(self.agent.psi, self.practice.pursuit)
        metrics = self._learn(due - self.num_updates)
        if self.is_done or self.stage >= 0:
            self._choose_library()
        if collected := [unroll for pool in pools for unroll in pool.collect()]:
            self._record(concatenate(collected))
        share = self.num_updates / self.config.replay.num_updates
        return Round(self.num_updates, metrics, share=share)

    def _record(self, unroll: Unroll) -> None:
        self.recorded.add(unroll)
        self._num_collected += unroll.num_steps
        if self.stage >= 0:
            self.practice.count(unroll)

    def reset_unsaveable_envs(self) -> None:
        for pool in self.actor_pools:
            pool.reset_unsaveable_envs(self._num_collected)

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """As of any replay learning, and the actors' and the practice's."""
        tensors, counts = super().state()
        for pool in self.actor_pools:
            tensors |= pool.state()
        tensors |= {f"practice.{k}": v for k, v in self.practice.state().items()}
        return tensors, counts | {"num_collected": self._num_collected}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        super().load_state(tensors, counts)
        self._num_steps = counts["num_steps"]
        self._num_collected = counts.get("num_collected", self._num_steps)
        # older versions had one group of environments, without a number
        older = {f"actor0.{k}": v for k, v in within(tensors, "actor.").items()}
        for pool in self.actor_pools:
            pool.load_state(older or tensors, self._num_collected)
        self.practice.load_state(within(tensors, "practice."))
