"""The workers: the single-machine loop's actor, learner and online evaluation in processes of their own.

Plain classes without Ray. They exchange numpy arrays, which Ray's object store shares without copying.
"""

from __future__ import annotations

import dataclasses
import os
import socket
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as distributed
from numpy.typing import NDArray
from torch import Tensor

from visr import agents, envs, working_directory
from visr import config as configuration
from visr.agents.base import Agent
from visr.config import RunConfig
from visr.training import devices
from visr.training.actor import Actor
from visr.training.actor_pool import group_sizes
from visr.training.exploring_actor import actor_class
from visr.training.learner import BatchQueue, within
from visr.training.loop import new_agent, new_learner
from visr.training.online_evaluation import OnlineEvaluation
from visr.types import Pursuit, Unroll

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


class EnvWorker(Worker):
    """A worker whose environments may be part of a checkpoint, under `_prefix`."""

    _prefix: str
    _part: Actor | OnlineEvaluation

    def __init__(self, config: RunConfig) -> None:
        cluster = config.cluster
        self._config = with_resources(config, cluster.cpus_per_actor, cluster.gpus_per_actor)
        self._free_since = time.perf_counter()

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Reset the environments if a checkpoint cannot contain their state."""
        self._part.reset_unsaveable_envs(num_steps)

    def state(self) -> Arrays:
        """Everything that determines later unrolls, given the weights."""
        return {f"{self._prefix}{k}": v for k, v in arrays(self._part.state()).items()}

    def load_state(self, state: Arrays, num_steps: int) -> None:
        """The inverse of `state`."""
        self._part.load_state(tensors(within(state, self._prefix)), num_steps)


class ActorWorker(EnvWorker):
    """The actor of one group of environments, with its own copy of psi."""

    def __init__(self, config: RunConfig, group: int, seed: int) -> None:
        super().__init__(config)
        self._group, self._seed, self._prefix = group, seed, f"actor{group}."

    def prepare(self) -> None:
        """Build the environments."""
        config = self._config
        set_up_process(config)
        env = envs.make_vec(config, group_sizes(config)[self._group])
        agent = devices.prepared(
            agents.new(config.agent, envs.spec(config), config.replay), config.training
        )
        self._part = self._actor = actor_class(config)(config, env, agent, self._seed)

    def collect(
        self, psi: Arrays, pursuit: list[NDArray] | None = None
    ) -> tuple[list[NDArray], dict[str, float]]:
        """One unroll with these weights, and the seconds spent acting and waiting."""
        start = time.perf_counter()
        waited = start - self._free_since
        self._actor.psi.load_state_dict(tensors(psi))
        pursued = None if pursuit is None else Pursuit(*shared_tensors(pursuit))
        unroll = self._actor.next_unroll(pursued)
        self._free_since = time.perf_counter()
        report = {"acted": self._free_since - start, "waited": waited}
        return [field.numpy() for field in unroll], report


class OnlineEvaluationWorker(EnvWorker):
    """The online evaluation: a few environments that see rewards and feed no learner."""

    _prefix = "online."

    def prepare(self) -> None:
        """Build the environments."""
        set_up_process(self._config)
        agent = devices.prepared(new_agent(self._config), self._config.training)
        self._agent = agent.requires_grad_(False)
        self._part = self._online = OnlineEvaluation(self._config, self._agent)

    def play(self, psi: Arrays, others: Arrays) -> None:
        """Play one unroll with the task inferred so far."""
        load_weights(self._agent, psi, others)
        self._online.play(self._agent)

    def row(self) -> dict[str, float]:
        """Results since the last row."""
        return self._online.row()


class LearnerWorker(Worker):
    """The learner, or one of several that split every batch."""

    def __init__(self, config: RunConfig, rank: int) -> None:
        cpus, gpus = config.cluster.cpus_per_learner, config.cluster.gpus_per_learner
        self._config, self._rank = with_resources(config, cpus, gpus), rank

    def address(self) -> str:
        """A free port of this machine, for the learners to connect to."""
        return AllReduce.address()

    def prepare(self, address_of_first: str | None) -> None:
        """Build agent and learner; several learners connect to each other first."""
        config, num_learners = self._config, self._config.cluster.num_learners
        set_up_process(config)
        all_reduce = None
        if address_of_first is not None:
            on_gpu = config.cluster.gpus_per_learner > 0
            all_reduce = AllReduce(address_of_first, self._rank, num_learners, on_gpu)
        self._agent = devices.prepared(new_agent(config), config.training)
        self._learner = new_learner(config, self._agent, all_reduce)
        size = config.training.batch_size
        self._batches = BatchQueue(self._learner, size, self._rank, num_learners)
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


class AllReduce:
    """Sums over several learners with torch.distributed: gloo on CPUs, nccl on GPUs.

    Every learner weights its gradients by its share of the batch's steps, so that the sum is the gradient
    of the whole batch's mean.
    """

    def __init__(self, address_of_first: str, rank: int, num_learners: int, on_gpu: bool) -> None:
        distributed.init_process_group(
            "nccl" if on_gpu else "gloo",
            init_method=address_of_first,
            rank=rank,
            world_size=num_learners,
        )
        self._device = torch.device("cuda" if on_gpu else "cpu")

    @staticmethod
    def address() -> str:
        """A free port of this machine, with an address that other nodes can reach."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as route:
            try:
                route.connect(("192.0.2.1", 9))  # sends nothing: it only selects an interface
                host = route.getsockname()[0]
            except OSError:
                host = "127.0.0.1"
        return f"tcp://{host}:{port}"

    def sum_count(self, count: Tensor) -> Tensor:
        """The sum of the learners' counts."""
        shared = count.to(self._device)
        distributed.all_reduce(shared)
        return shared.cpu()

    def sum_gradients(self, gradients: list[Tensor], metrics: dict[str, Tensor]) -> None:
        """Sum all tensors in one message; each small one would cost a round trip."""
        names = sorted(metrics)
        parts = [*gradients, *(metrics[name] for name in names)]
        flat = torch.cat([part.reshape(-1).float() for part in parts])
        distributed.all_reduce(flat)
        summed = flat.split([part.numel() for part in parts])
        for part, total in zip(gradients, summed, strict=False):
            part.copy_(total.view_as(part))
        for name, total in zip(names, summed[len(gradients) :], strict=True):
            metrics[name] = total.reshape(())


def with_resources(config: RunConfig, cpus: float, gpus: float) -> RunConfig:
    """Use as many threads as CPUs were requested, and the CPU unless a GPU was requested."""
    training = config.training
    threads = training.num_threads or max(1, int(cpus))
    device = training.device if gpus else "cpu"
    changed = dataclasses.replace(training, num_threads=threads, device=device)
    return configuration.validated(dataclasses.replace(config, training=changed))


def set_up_process(config: RunConfig) -> None:
    """Set threads, denormals and the allocator as in the single-machine loop; see `working_directory`."""
    working_directory.ignore_settings()
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
