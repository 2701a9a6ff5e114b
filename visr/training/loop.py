"""The single-machine loop: actors run one round ahead of the learner, which is fed in order of arrival."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from typing import NamedTuple, Protocol, SupportsFloat

import torch
from torch import Tensor

from visr import envs
from visr.agents import registry
from visr.config import RunConfig
from visr.ops.rng import derived
from visr.training import devices
from visr.training.actor_pool import muster, spec_of
from visr.training.batch_queue import Intake
from visr.training.learner import Learner, Partners, within
from visr.training.online_evaluation import OnlineEvaluation
from visr.types import EnvSpec


class Round(NamedTuple):
    """One round of acting and learning."""

    num_steps: int
    """Steps collected in the run so far."""
    num_updates: int
    """Updates made in the run so far."""
    metrics: Sequence[Mapping[str, SupportsFloat]]
    """What each update of this round reported."""


class Setback(Exception):
    """What was learnt since the last checkpoint is lost; the loop can go on from there."""


class TrainingLoop(Protocol):
    """What drives a run, on one machine or on many; pretraining iterates, logs and saves."""

    config: RunConfig
    spec: EnvSpec
    where: str
    """The cluster's address; empty on one machine."""

    @property
    def agent(self) -> registry.Agent:
        """The networks as they are now."""
        ...

    @property
    def online(self) -> Rewarded | None:
        """The rewarded environments, if there are any."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether the learner has seen all the steps it was promised."""
        ...

    @property
    def num_learned_steps(self) -> int:
        """Steps the learner has consumed."""
        ...

    @property
    def remembers(self) -> bool:
        """Whether the state is complete at any time."""
        ...

    def rounds(self) -> Generator[Round]:
        """Act and learn until done."""
        ...

    def vitals(self) -> dict[str, float]:
        """How those who act and learn elsewhere have fared since the last call."""
        ...

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All tensors and counts from which the run goes on."""
        ...

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`."""
        ...

    def restart_forgetful_environments(self) -> None:
        """Reset and reseed environments whose state cannot be saved."""
        ...

    def close(self) -> None:
        """Let go of everything elsewhere."""
        ...


class Rewarded(Protocol):
    """What pretraining asks of an online evaluation."""

    def row(self) -> dict[str, float]:
        """What happened since the last row."""
        ...


class Loop:
    """Everything that moves in a run.

    In one round the learner works through the unrolls that are waiting, 32 at a time, while every actor
    collects the next ones with the weights from the round's start. The lag is fixed, and so is the order
    of unrolls: results do not depend on the number of processes or on who is faster.
    """

    def __init__(self, config: RunConfig, num_processes: int | None = None) -> None:
        devices.keep_freed_memory()
        self.config, self.where = config, ""
        self.spec = spec_of(envs.make_vec(config, 1))
        self.agent = devices.prepared(new_agent(config, self.spec), config.training)
        self.learner = new_learner(config, self.agent)
        self.crews = muster(config, self.agent.psi, num_processes or config.training.num_processes)
        rewarded = config.training.num_rewarded_envs
        self.online = OnlineEvaluation(config, self.agent) if rewarded else None
        self.num_steps = 0
        self._intake = Intake(self.learner, config.training.batch_size, total_updates(config))

    def close(self) -> None:
        """Let go of acting processes."""
        for crew in self.crews:
            crew.close()

    @property
    def is_done(self) -> bool:
        """Whether the learner has seen all the steps it was promised."""
        return self.learner.num_updates >= total_updates(self.config)

    @property
    def num_learned_steps(self) -> int:
        """Steps the learner has consumed: what the run's counts of steps mean."""
        training = self.config.training
        return self.learner.num_updates * training.batch_size * training.unroll_length

    def rounds(self) -> Generator[Round]:
        """Act and learn until done; whoever iterates decides when to log, save or stop."""
        torch.set_flush_denormal(True)
        try:
            with devices.threads(self.config.training):
                while not self.is_done:
                    yield self._round()
        finally:
            torch.set_flush_denormal(False)

    def _round(self) -> Round:
        crews = [] if self._has_enough() else self.crews
        for crew in crews:
            crew.begin(self.agent.psi)
        if crews and self.online:
            self.online.play(self.agent)
        metrics = self._intake.learn()
        collected = [unroll for crew in crews for unroll in crew.collect()]
        self._intake.add(collected)
        self.num_steps += sum(unroll.num_steps for unroll in collected)
        return Round(self.num_steps, self.learner.num_updates, metrics)

    def _has_enough(self) -> bool:
        """Whether the unrolls that are waiting already suffice for the updates that are left."""
        updates_left = total_updates(self.config) - self.learner.num_updates
        return self._intake.num_waiting >= updates_left * self.config.training.batch_size

    def vitals(self) -> dict[str, float]:
        """Nothing: all of it happens here."""
        return {}

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """All tensors and counts from which the run goes on as if never stopped."""
        tensors = {f"learner.{k}": v for k, v in self.learner.state().items()}
        for crew in self.crews:
            tensors |= crew.state()
        if self.online:
            tensors |= {f"online.{k}": v for k, v in self.online.state().items()}
        tensors |= self._intake.state()
        return tensors, {"num_steps": self.num_steps, "num_updates": self.learner.num_updates}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`."""
        self.num_steps = counts["num_steps"]
        self.learner.load_state(within(tensors, "learner."), counts["num_updates"])
        for crew in self.crews:
            crew.load_state(tensors, self.num_steps)
        if self.online:
            self.online.load_state(within(tensors, "online."), self.num_steps)
        self._intake.load_state(tensors)

    @property
    def remembers(self) -> bool:
        """Whether the state is complete at any time, and not only right after a restart."""
        return all(crew.remembers for crew in self.crews)

    def restart_forgetful_environments(self) -> None:
        """Reset and reseed environments whose state cannot be saved, so that a resumed run can follow."""
        for crew in self.crews:
            crew.restart(self.num_steps)
        if self.online:
            self.online.restart(self.num_steps)


def new_agent(config: RunConfig, spec: EnvSpec) -> registry.Agent:
    """An agent whose initial weights depend on nothing but the seed."""
    seed = derived(config.training.seed, 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return registry.new(config.agent, spec)


def new_learner(
    config: RunConfig, agent: registry.Agent, partners: Partners | None = None
) -> Learner:
    """The learner that a configuration describes, alone or with others that share its batches."""
    return Learner(
        agent,
        total_updates(config),
        phi_updates=updates_until(config, config.agent.phi_num_steps),
        bonus_updates=updates_until(config, config.agent.bonus_num_steps),
        micro_batch=config.training.micro_batch,
        device=agent.device,
        partners=partners,
    )


def total_updates(config: RunConfig) -> int:
    """Updates in the whole run."""
    return updates_until(config, config.training.num_steps)


def updates_until(config: RunConfig, num_steps: int) -> int:
    """Updates until that many steps have been learnt from."""
    training = config.training
    return math.ceil(num_steps / (training.batch_size * training.unroll_length))
