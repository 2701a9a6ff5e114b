"""Actor pools: groups of actors in this process, or in a child process with its own interpreter lock."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from typing import IO, Any, Protocol

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from visr import config as configuration
from visr import envs
from visr.agents import registry
from visr.agents.base import Agent
from visr.config import RunConfig
from visr.errors import UserError
from visr.networks.successor import SuccessorFeatures
from visr.training import devices
from visr.training.actor import Actor
from visr.training.learner import within
from visr.types import EnvSpec, Unroll


class ActorPool(Protocol):
    """What the loop needs from actors in any process."""

    @property
    def can_checkpoint_envs(self) -> bool:
        """Whether the environments' state can be saved and restored."""
        ...

    def begin(self, psi: SuccessorFeatures) -> None:
        """Copy these weights and, in another process, start acting."""
        ...

    def collect(self) -> list[Unroll]:
        """One unroll of every group."""
        ...

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Start new episodes in environments whose state cannot be saved."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Every tensor that decides the next unrolls, except the weights."""
        ...

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`."""
        ...

    def close(self) -> None:
        """End the child process, if there is one."""
        ...


class LocalActorPool:
    """Actors of this process; they act one after the other."""

    def __init__(self, config: RunConfig, groups: list[int], agent: Agent) -> None:
        sizes, seeds = group_sizes(config), group_seeds(config)
        self.actors = {
            group: Actor(config, envs.make_vec(config, sizes[group]), agent, seeds[group])
            for group in groups
        }

    @property
    def can_checkpoint_envs(self) -> bool:
        """Whether the environments' state can be saved and restored."""
        return all(actor.can_checkpoint_envs for actor in self.actors.values())

    def begin(self, psi: SuccessorFeatures) -> None:
        """Copy the weights now, because the learner is about to change its own."""
        for actor in self.actors.values():
            actor.refresh(psi)

    def collect(self) -> list[Unroll]:
        """One unroll of every group."""
        return [actor.collect() for actor in self.actors.values()]

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Start new episodes in environments whose state cannot be saved."""
        for actor in self.actors.values():
            if not actor.can_checkpoint_envs:
                actor.reset_envs(num_steps)

    def state(self) -> dict[str, Tensor]:
        """Each group's state under the group's name, so that other pools can load it."""
        return {
            f"actor{group}.{name}": tensor
            for group, actor in self.actors.items()
            for name, tensor in actor.state().items()
        }

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`; tensors of other groups are ignored."""
        for group, actor in self.actors.items():
            actor.load_state(within(tensors, f"actor{group}."), num_steps)

    def close(self) -> None:
        """Nothing to close."""


class RemoteActorPool:
    """Actors in a child process; messages are safetensors over two pipes, nothing is pickled."""

    def __init__(self, config: RunConfig, groups: list[int]) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "visr.training.actor_pool"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # only the parent handles signals; the child ends with its pipe
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self._groups = groups
        send(self._to, {"config": configuration.to_dict(config), "groups": groups})

    @property
    def can_checkpoint_envs(self) -> bool:
        """Whether the environments' state can be saved and restored."""
        return self._ask({"do": "can_checkpoint_envs"})[0]["can_checkpoint_envs"]

    def begin(self, psi: SuccessorFeatures) -> None:
        """Send the weights; the child acts while the learner works here."""
        self._request({"do": "collect"}, dict(psi.state_dict()))

    def collect(self) -> list[Unroll]:
        """Receive the unrolls that `begin` requested."""
        _, tensors = self._answer()
        return [Unroll(**within(tensors, f"{group}.")) for group in self._groups]

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Start new episodes in environments whose state cannot be saved."""
        self._ask({"do": "reset_unsaveable_envs", "num_steps": num_steps})

    def state(self) -> dict[str, Tensor]:
        """Every tensor that decides the next unrolls, except the weights."""
        return self._ask({"do": "state"})[1]

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`."""
        mine = tuple(f"actor{group}." for group in self._groups)
        sent = {name: tensor for name, tensor in tensors.items() if name.startswith(mine)}
        self._ask({"do": "load_state", "num_steps": num_steps}, sent)

    def close(self) -> None:
        """Close the pipes, which ends the child."""
        for pipe in (self._to, self._from):
            with contextlib.suppress(BrokenPipeError):  # the child may have ended already
                pipe.close()
        self.process.wait()

    def _request(self, message: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> None:
        with contextlib.suppress(BrokenPipeError):  # `_answer` will say why
            send(self._to, message, tensors)

    def _ask(
        self, message: dict[str, Any], tensors: dict[str, Tensor] | None = None
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        self._request(message, tensors)
        return self._answer()

    def _answer(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        try:
            message, tensors = receive(self._from)
        except EOFError:
            code = self.process.wait()
            raise UserError(
                f"An acting process ended unexpectedly (exit code {code}); the run is saved up to its "
                "last checkpoint, so go on with --resume, or with fewer --num-processes."
            ) from None
        if "error" in message:
            raise UserError(message["error"])
        return message, tensors


def make_actor_pools(config: RunConfig, agent: Agent, num_processes: int) -> list[ActorPool]:
    """Pools for all groups, in order: the first group acts in this process, the others in children."""
    groups = list(range(config.training.num_actor_groups))
    if num_processes == 1 or len(groups) == 1:
        return [LocalActorPool(config, groups, agent)]
    shares = [s.tolist() for s in np.array_split(groups[1:], num_processes - 1) if len(s)]
    remote: list[ActorPool] = [RemoteActorPool(config, share) for share in shares]
    return [LocalActorPool(config, groups[:1], agent), *remote]


def group_sizes(config: RunConfig) -> list[int]:
    """Environments per group, as equal as possible."""
    training = config.training
    num_envs, num_groups = training.num_envs - training.num_rewarded_envs, training.num_actor_groups
    return [num_envs // num_groups + (i < num_envs % num_groups) for i in range(num_groups)]


def group_seeds(config: RunConfig) -> list[int]:
    """A seed per group; it does not depend on the group's process."""
    sequence = np.random.SeedSequence([config.training.seed, 1])
    return [int(s) for s in sequence.generate_state(config.training.num_actor_groups)]


def spec_of(env: Any) -> EnvSpec:
    """The spaces of one environment of a vector."""
    return EnvSpec(env.single_observation_space, int(env.single_action_space.n))


# ---------------------------------------------------------------------------------- messages


def send(
    pipe: IO[bytes], message: dict[str, Any], tensors: dict[str, Tensor] | None = None
) -> None:
    """Write one frame: its length, then safetensors with the message as metadata."""
    plain = {name: tensor.contiguous() for name, tensor in (tensors or {}).items()}
    frame = safetensors.torch.save(plain, metadata={"message": json.dumps(message)})
    pipe.write(len(frame).to_bytes(8, "little"))
    pipe.write(frame)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the next frame; EOFError when the other process has ended."""
    length = int.from_bytes(pipe.read(8), "little")
    frame = pipe.read(length)
    if not length or len(frame) < length:
        raise EOFError
    header = json.loads(frame[8 : 8 + int.from_bytes(frame[:8], "little")])
    return json.loads(header["__metadata__"]["message"]), safetensors.torch.load(frame)


# ----------------------------------------------------------------------------- child process


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Build the pool that the first message describes, then answer requests until the pipe closes."""
    try:
        message, _ = receive(requests)
        config = configuration.from_dict(message["config"])
        spec = spec_of(envs.make_vec(config, 1))
        agent = devices.prepared(registry.new(config.agent, spec), config.training)
        pool = LocalActorPool(config, message["groups"], agent)
        while True:
            message, tensors = receive(requests)
            send(answers, *_answer(pool, agent.psi, message, tensors))
    except UserError as error:
        send(answers, {"error": str(error)})
    except (EOFError, BrokenPipeError):
        pass


def _answer(
    pool: LocalActorPool,
    psi: SuccessorFeatures,
    message: dict[str, Any],
    tensors: dict[str, Tensor],
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    match message["do"]:
        case "collect":
            psi.load_state_dict(tensors)
            pool.begin(psi)
            unrolls = zip(pool.actors, pool.collect(), strict=True)
            return {}, {f"{g}.{k}": v for g, u in unrolls for k, v in u._asdict().items()}
        case "state":
            return {}, pool.state()
        case "load_state":
            pool.load_state(tensors, message["num_steps"])
        case "reset_unsaveable_envs":
            pool.reset_unsaveable_envs(message["num_steps"])
    return {"can_checkpoint_envs": pool.can_checkpoint_envs}, {}


def _main() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    devices.keep_freed_memory()
    # Environments that print write to stderr; the real stdout carries only frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
