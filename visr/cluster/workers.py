"""What runs in the cluster's processes: the single-machine loop's own actor, learner and online evaluation.

Plain classes that know nothing of Ray. They speak numpy, which Ray's object store hands out without copying.
"""

from __future__ import annotations

import dataclasses
import os
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from visr import config as configuration
from visr import envs
from visr.agents.base import new_psi
from visr.agents.registry import Agent
from visr.cluster.all_reduce import TorchPartners
from visr.config import RunConfig
from visr.training import devices
from visr.training.actor import Actor
from visr.training.actor_pool import group_sizes, spec_of
from visr.training.batch_queue import Intake
from visr.training.learner import within
from visr.training.loop import new_agent, new_learner, total_updates
from visr.training.online_evaluation import OnlineEvaluation
from visr.types import Unroll

Arrays = dict[str, NDArray]


class Weights(NamedTuple):
    """What a learner publishes; in the driver's hands each field is a reference, not the thing."""

    psi: Any
    """Arrays of psi: all that an actor needs."""
    others: Any
    """Arrays of phi and whatever else the agent has, but for the target."""
    version: int
    """Updates that had been made."""


class Host:
    """A process that has been told what to be, and becomes it when asked to."""

    def hello(self) -> int:
        """The process id: this process has begun."""
        return os.getpid()


class ActorHost(Host):
    """One group's actor with its own copy of psi."""

    def __init__(self, config: RunConfig, group: int, seed: int) -> None:
        self._config, self._group, self._seed = for_acting(config), group, seed
        self._free_since = time.perf_counter()

    def prepare(self) -> bool:
        """Build the environments; whether they can be saved and put back."""
        config = self._config
        settle_in(config)
        env = envs.make_vec(config, group_sizes(config)[self._group])
        self._psi = devices.prepared(new_psi(config.agent, spec_of(env)), config.training)
        self._actor = Actor(config, env, self._psi, self._seed)
        return self._actor.remembers

    def collect(self, psi: Arrays) -> tuple[list[NDArray], dict[str, float]]:
        """One unroll with these weights, and how long it took and was waited for."""
        start = time.perf_counter()
        waited = start - self._free_since
        self._psi.load_state_dict(tensors(psi))
        self._actor.refresh(self._psi)
        unroll = self._actor.collect()
        self._free_since = time.perf_counter()
        report = {"acted": self._free_since - start, "waited": waited}
        return [field.numpy() for field in unroll], report

    def restart(self, num_steps: int) -> None:
        """Begin new episodes if the environments cannot be saved."""
        if not self._actor.remembers:
            self._actor.restart(num_steps)

    def state(self) -> Arrays:
        """All that determines what comes next, given weights."""
        return {f"actor{self._group}.{k}": v for k, v in arrays(self._actor.state()).items()}

    def load_state(self, state: Arrays, num_steps: int) -> None:
        """The inverse of `state`."""
        self._actor.load_state(tensors(within(state, f"actor{self._group}.")), num_steps)


class LearnerHost(Host):
    """The learner, or one of several that share every batch."""

    def __init__(self, config: RunConfig, rank: int) -> None:
        self._config, self._rank = for_learning(config), rank

    def address(self) -> str:
        """Where the learners can meet: a free port of this machine."""
        return TorchPartners.address()

    def prepare(self, meeting_point: str | None) -> None:
        """Build agent and learner; several learners meet each other first."""
        config, num_learners = self._config, self._config.cluster.num_learners
        settle_in(config)
        partners = None
        if meeting_point is not None:
            on_gpu = config.cluster.gpus_per_learner > 0
            partners = TorchPartners(meeting_point, self._rank, num_learners, on_gpu)
        spec = spec_of(envs.make_vec(config, 1))
        self._agent = devices.prepared(new_agent(config, spec), config.training)
        self._learner = new_learner(config, self._agent, partners)
        size, total = config.training.batch_size, total_updates(config)
        self._intake = Intake(self._learner, size, total, self._rank, num_learners)
        self._free_since = time.perf_counter()

    def learn(self, *unrolls: list[NDArray]) -> tuple[Arrays, Arrays, dict[str, Any]]:
        """Let these join those that wait, update on every full batch, and publish."""
        start = time.perf_counter()
        waited = start - self._free_since
        self._intake.add([Unroll(*borrowed(fields)) for fields in unrolls])
        metrics = [{k: float(v) for k, v in one.items()} for one in self._intake.learn()]
        self._free_since = time.perf_counter()
        report = {"learnt": self._free_since - start, "waited": waited, "metrics": metrics}
        return *self.publish(), report

    def publish(self) -> tuple[Arrays, Arrays]:
        """psi, and the agent's other weights; nobody elsewhere needs a target network."""
        state = arrays(self._agent.state_dict())
        others = {k: v for k, v in state.items() if not k.startswith(("psi.", "target_psi."))}
        return within(state, "psi."), others

    def state(self, *unrolls: list[NDArray]) -> Arrays:
        """Learner and waiting unrolls, these included, as the single-machine loop saves them."""
        self._intake.add([Unroll(*borrowed(fields)) for fields in unrolls])
        learner = {f"learner.{k}": v for k, v in self._learner.state().items()}
        return arrays(learner | self._intake.state())

    def load_state(self, state: Arrays, num_updates: int) -> None:
        """The inverse of `state`."""
        loaded = tensors(state)
        self._learner.load_state(within(loaded, "learner."), num_updates)
        self._intake.load_state(loaded)


class RewardedHost(Host):
    """The online evaluation: the few environments that see rewards and feed no learner."""

    def __init__(self, config: RunConfig) -> None:
        self._config = for_acting(config)

    def prepare(self) -> bool:
        """Build the environments; whether they can be saved and put back."""
        settle_in(self._config)
        spec = spec_of(envs.make_vec(self._config, 1))
        agent = devices.prepared(new_agent(self._config, spec), self._config.training)
        self._agent = agent.requires_grad_(False)
        self._online = OnlineEvaluation(self._config, self._agent)
        return self._online.actor.remembers

    def play(self, psi: Arrays, others: Arrays) -> None:
        """One unroll with the task as it is known now."""
        load_weights(self._agent, psi, others)
        self._online.play(self._agent)

    def row(self) -> dict[str, float]:
        """What happened since the last row."""
        return self._online.row()

    def restart(self, num_steps: int) -> None:
        """Begin new games where they cannot be saved."""
        self._online.restart(num_steps)

    def state(self) -> Arrays:
        """All that determines what comes next, given weights."""
        return {f"online.{k}": v for k, v in arrays(self._online.state()).items()}

    def load_state(self, state: Arrays, num_steps: int) -> None:
        """The inverse of `state`."""
        self._online.load_state(tensors(within(state, "online.")), num_steps)


def for_acting(config: RunConfig) -> RunConfig:
    """The configuration as an actor's resources permit it."""
    return _with_resources(config, config.cluster.cpus_per_actor, config.cluster.gpus_per_actor)


def for_learning(config: RunConfig) -> RunConfig:
    """The configuration as a learner's resources permit it."""
    return _with_resources(config, config.cluster.cpus_per_learner, config.cluster.gpus_per_learner)


def _with_resources(config: RunConfig, cpus: float, gpus: float) -> RunConfig:
    """All cores are those that were asked for; a process without a GPU of its own computes on the CPU."""
    training = config.training
    threads = training.num_threads or max(1, int(cpus))
    device = training.device if gpus else "cpu"
    changed = dataclasses.replace(training, num_threads=threads, device=device)
    return configuration.validated(dataclasses.replace(config, training=changed))


def settle_in(config: RunConfig) -> None:
    """Compute as the single-machine loop does."""
    torch.set_num_threads(devices.num_threads(config.training))
    torch.set_flush_denormal(True)
    devices.keep_freed_memory()


def arrays(state: dict[str, Tensor]) -> Arrays:
    """Tensors as numpy, wherever they live."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}


def tensors(state: Arrays) -> dict[str, Tensor]:
    """Numpy as tensors of their own: what the object store hands out must not be written to."""
    return {name: torch.from_numpy(np.array(array)) for name, array in state.items()}


def borrowed(fields: list[NDArray]) -> list[Tensor]:
    """Numpy as tensors in the object store's own memory, to be read and let go."""
    with warnings.catch_warnings():  # torch warns of what it must not write to; nobody will
        warnings.simplefilter("ignore")
        return [torch.from_numpy(field) for field in fields]


def load_weights(agent: Agent, psi: Arrays, others: Arrays) -> None:
    """Take over published weights; a target network, if there is one, stays as it is."""
    state = {f"psi.{name}": array for name, array in psi.items()} | others
    agent.load_state_dict(tensors(state), strict=False)
