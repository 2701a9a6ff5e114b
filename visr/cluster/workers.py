"""The workers: the single-machine loop's actor, learner and online evaluation in processes of their own.

Plain classes without Ray. They exchange numpy arrays, which Ray's object store shares without copying.
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
from visr.agents import registry
from visr.agents.base import Agent
from visr.cluster.all_reduce import AllReduce
from visr.config import RunConfig
from visr.training import devices
from visr.training.actor import Actor
from visr.training.actor_pool import group_sizes
from visr.training.batch_queue import BatchQueue
from visr.training.learner import within
from visr.training.loop import new_agent, new_learner, total_updates
from visr.training.online_evaluation import OnlineEvaluation
from visr.types import Unroll

Arrays = dict[str, NDArray]


class Weights(NamedTuple):
    """The weights that a learner publishes; in the driver each field is a reference."""

    psi: Any
    """Arrays of psi, which actors need."""
    others: Any
    """Arrays of the agent's other networks, without the target network."""
    version: int
    """Number of updates made."""


class Worker:
    """A process that builds its part in `prepare`."""

    def process_id(self) -> int:
        """The process id; the answer shows that the process has started."""
        return os.getpid()


class ActorWorker(Worker):
    """The actor of one group of environments, with its own copy of psi."""

    def __init__(self, config: RunConfig, group: int, seed: int) -> None:
        self._config, self._group, self._seed = actor_config(config), group, seed
        self._free_since = time.perf_counter()

    def prepare(self) -> bool:
        """Build the environments; returns whether a checkpoint can contain their state."""
        config = self._config
        set_up_torch(config)
        env = envs.make_vec(config, group_sizes(config)[self._group])
        agent = devices.prepared(registry.new(config.agent, envs.spec(config)), config.training)
        self._psi, self._actor = agent.psi, Actor(config, env, agent, self._seed)
        return self._actor.can_checkpoint_envs

    def collect(self, psi: Arrays) -> tuple[list[NDArray], dict[str, float]]:
        """One unroll with these weights, and the seconds spent acting and waiting."""
        start = time.perf_counter()
        waited = start - self._free_since
        self._psi.load_state_dict(tensors(psi))
        self._actor.refresh(self._psi)
        unroll = self._actor.collect()
        self._free_since = time.perf_counter()
        report = {"acted": self._free_since - start, "waited": waited}
        return [field.numpy() for field in unroll], report

    def restart(self, num_steps: int) -> None:
        """Reset the environments if a checkpoint cannot contain their state."""
        if not self._actor.can_checkpoint_envs:
            self._actor.reset_envs(num_steps)

    def state(self) -> Arrays:
        """Everything that determines later unrolls, given the weights."""
        return {f"actor{self._group}.{k}": v for k, v in arrays(self._actor.state()).items()}

    def load_state(self, state: Arrays, num_steps: int) -> None:
        """The inverse of `state`."""
        self._actor.load_state(tensors(within(state, f"actor{self._group}.")), num_steps)


class LearnerWorker(Worker):
    """The learner, or one of several that split every batch."""

    def __init__(self, config: RunConfig, rank: int) -> None:
        self._config, self._rank = learner_config(config), rank

    def address(self) -> str:
        """A free port of this machine, for the learners to connect to."""
        return AllReduce.address()

    def prepare(self, address_of_first: str | None) -> None:
        """Build agent and learner; several learners connect to each other first."""
        config, num_learners = self._config, self._config.cluster.num_learners
        set_up_torch(config)
        all_reduce = None
        if address_of_first is not None:
            on_gpu = config.cluster.gpus_per_learner > 0
            all_reduce = AllReduce(address_of_first, self._rank, num_learners, on_gpu)
        self._agent = devices.prepared(new_agent(config), config.training)
        self._learner = new_learner(config, self._agent, all_reduce)
        size, total = config.training.batch_size, total_updates(config)
        self._batches = BatchQueue(self._learner, size, total, self._rank, num_learners)
        self._free_since = time.perf_counter()

    def learn(self, *unrolls: list[NDArray]) -> tuple[Arrays, Arrays, dict[str, Any]]:
        """Queue these unrolls, update on every full batch, and publish the weights."""
        start = time.perf_counter()
        waited = start - self._free_since
        self._batches.add([Unroll(*shared_tensors(fields)) for fields in unrolls])
        metrics = [{k: float(v) for k, v in one.items()} for one in self._batches.learn()]
        self._free_since = time.perf_counter()
        report = {"learnt": self._free_since - start, "waited": waited, "metrics": metrics}
        return *self.publish(), report

    def publish(self) -> tuple[Arrays, Arrays]:
        """psi, and the agent's other weights without the target network."""
        state = arrays(self._agent.state_dict())
        others = {k: v for k, v in state.items() if not k.startswith(("psi.", "target_psi."))}
        return within(state, "psi."), others

    def state(self, *unrolls: list[NDArray]) -> Arrays:
        """The learner and the queued unrolls, these included, as the single-machine loop saves them."""
        self._batches.add([Unroll(*shared_tensors(fields)) for fields in unrolls])
        learner = {f"learner.{k}": v for k, v in self._learner.state().items()}
        return arrays(learner | self._batches.state())

    def load_state(self, state: Arrays, num_updates: int) -> None:
        """The inverse of `state`."""
        loaded = tensors(state)
        self._learner.load_state(within(loaded, "learner."), num_updates)
        self._batches.load_state(loaded)


class OnlineEvaluationWorker(Worker):
    """The online evaluation: a few environments that see rewards and feed no learner."""

    def __init__(self, config: RunConfig) -> None:
        self._config = actor_config(config)

    def prepare(self) -> bool:
        """Build the environments; returns whether a checkpoint can contain their state."""
        set_up_torch(self._config)
        agent = devices.prepared(new_agent(self._config), self._config.training)
        self._agent = agent.requires_grad_(False)
        self._online = OnlineEvaluation(self._config, self._agent)
        return self._online.actor.can_checkpoint_envs

    def play(self, psi: Arrays, others: Arrays) -> None:
        """Play one unroll with the task inferred so far."""
        load_weights(self._agent, psi, others)
        self._online.play(self._agent)

    def row(self) -> dict[str, float]:
        """Statistics since the last row."""
        return self._online.row()

    def restart(self, num_steps: int) -> None:
        """Reset environments whose state cannot be saved."""
        self._online.reset_unsaveable_envs(num_steps)

    def state(self) -> Arrays:
        """Everything that determines later unrolls, given the weights."""
        return {f"online.{k}": v for k, v in arrays(self._online.state()).items()}

    def load_state(self, state: Arrays, num_steps: int) -> None:
        """The inverse of `state`."""
        self._online.load_state(tensors(within(state, "online.")), num_steps)


def actor_config(config: RunConfig) -> RunConfig:
    """The configuration with an actor's threads and device."""
    return _with_resources(config, config.cluster.cpus_per_actor, config.cluster.gpus_per_actor)


def learner_config(config: RunConfig) -> RunConfig:
    """The configuration with a learner's threads and device."""
    return _with_resources(config, config.cluster.cpus_per_learner, config.cluster.gpus_per_learner)


def _with_resources(config: RunConfig, cpus: float, gpus: float) -> RunConfig:
    """Use as many threads as CPUs were requested, and the CPU unless a GPU was requested."""
    training = config.training
    threads = training.num_threads or max(1, int(cpus))
    device = training.device if gpus else "cpu"
    changed = dataclasses.replace(training, num_threads=threads, device=device)
    return configuration.validated(dataclasses.replace(config, training=changed))


def set_up_torch(config: RunConfig) -> None:
    """Set threads, denormals and the allocator as in the single-machine loop."""
    torch.set_num_threads(devices.num_threads(config.training))
    torch.set_flush_denormal(True)
    devices.keep_freed_memory()


def arrays(state: dict[str, Tensor]) -> Arrays:
    """Tensors of any device as numpy arrays."""
    return {name: tensor.detach().cpu().numpy() for name, tensor in state.items()}


def tensors(state: Arrays) -> dict[str, Tensor]:
    """Numpy arrays as copied tensors: the object store's memory is read-only."""
    return {name: torch.from_numpy(np.array(array)) for name, array in state.items()}


def shared_tensors(fields: list[NDArray]) -> list[Tensor]:
    """Numpy arrays as read-only tensors in the object store's memory."""
    with warnings.catch_warnings():  # torch warns of read-only memory; nothing writes to it
        warnings.simplefilter("ignore")
        return [torch.from_numpy(field) for field in fields]


def load_weights(agent: Agent, psi: Arrays, others: Arrays) -> None:
    """Load published weights; the target network, if any, does not change."""
    state = {f"psi.{name}": array for name, array in psi.items()} | others
    agent.load_state_dict(tensors(state), strict=False)
