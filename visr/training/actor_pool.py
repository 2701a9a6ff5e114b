"""Crews: the actors of one process, in this one or in another that shares no interpreter lock with it."""

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
from visr.agents.base import new_psi
from visr.config import RunConfig
from visr.errors import UserError
from visr.networks.successor import SuccessorFeatures
from visr.training import devices
from visr.training.actor import Actor
from visr.training.learner import within
from visr.types import EnvSpec, Unroll


class Crew(Protocol):
    """What the loop asks of actors, wherever they are."""

    @property
    def remembers(self) -> bool:
        """Whether their environments can be saved and put back."""
        ...

    def begin(self, psi: SuccessorFeatures) -> None:
        """Take over these weights and, if in another process, start acting."""
        ...

    def collect(self) -> list[Unroll]:
        """One unroll of every group."""
        ...

    def restart(self, num_steps: int) -> None:
        """Begin new episodes in environments that cannot be saved."""
        ...

    def state(self) -> dict[str, Tensor]:
        """All that determines what the actors do next, given weights."""
        ...

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`."""
        ...

    def close(self) -> None:
        """Let go of processes."""
        ...


class LocalCrew:
    """Actors of this process, one after the other."""

    def __init__(self, config: RunConfig, groups: list[int], psi: SuccessorFeatures) -> None:
        sizes, seeds = group_sizes(config), group_seeds(config)
        self.actors = {
            group: Actor(config, envs.make_vec(config, sizes[group]), psi, seeds[group])
            for group in groups
        }

    @property
    def remembers(self) -> bool:
        """Whether their environments can be saved and put back."""
        return all(actor.remembers for actor in self.actors.values())

    def begin(self, psi: SuccessorFeatures) -> None:
        """Copy the weights now: the learner will change its own meanwhile."""
        for actor in self.actors.values():
            actor.refresh(psi)

    def collect(self) -> list[Unroll]:
        """One unroll of every group."""
        return [actor.collect() for actor in self.actors.values()]

    def restart(self, num_steps: int) -> None:
        """Begin new episodes in environments that cannot be saved."""
        for actor in self.actors.values():
            if not actor.remembers:
                actor.restart(num_steps)

    def state(self) -> dict[str, Tensor]:
        """Each group's state under its own name, so that crews may be mustered anew."""
        return {
            f"actor{group}.{name}": tensor
            for group, actor in self.actors.items()
            for name, tensor in actor.state().items()
        }

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`; other crews' groups are left alone."""
        for group, actor in self.actors.items():
            actor.load_state(within(tensors, f"actor{group}."), num_steps)

    def close(self) -> None:
        """Nothing to let go of."""


class RemoteCrew:
    """A crew in a child process; frames of safetensors over two pipes, nothing is pickled."""

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
            start_new_session=True,  # signals are for the parent; the child ends with its pipe
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self._groups = groups
        self._order: dict[str, Any] = {"config": configuration.to_dict(config), "groups": groups}
        send(self._to, self._order)

    @property
    def remembers(self) -> bool:
        """Whether their environments can be saved and put back."""
        return self._ask({"do": "remembers"})[0]["remembers"]

    def begin(self, psi: SuccessorFeatures) -> None:
        """Send the weights; acting starts over there while the learner works here."""
        self._tell({"do": "collect"}, dict(psi.state_dict()))

    def collect(self) -> list[Unroll]:
        """Fetch what `begin` set in motion."""
        _, tensors = self._answer()
        return [Unroll(**within(tensors, f"{group}.")) for group in self._groups]

    def restart(self, num_steps: int) -> None:
        """Begin new episodes in environments that cannot be saved."""
        self._ask({"do": "restart", "num_steps": num_steps})

    def state(self) -> dict[str, Tensor]:
        """All that determines what the actors do next, given weights."""
        return self._ask({"do": "state"})[1]

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`."""
        mine = tuple(f"actor{group}." for group in self._groups)
        sent = {name: tensor for name, tensor in tensors.items() if name.startswith(mine)}
        self._ask({"do": "load_state", "num_steps": num_steps}, sent)

    def close(self) -> None:
        """The child ends when nobody talks to it any more."""
        for pipe in (self._to, self._from):
            with contextlib.suppress(BrokenPipeError):  # it may have gone already
                pipe.close()
        self.process.wait()

    def _tell(self, order: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> None:
        with contextlib.suppress(BrokenPipeError):  # the answer, or its absence, says why
            send(self._to, order, tensors)

    def _ask(
        self, order: dict[str, Any], tensors: dict[str, Tensor] | None = None
    ) -> tuple[dict[str, Any], dict[str, Tensor]]:
        self._tell(order, tensors)
        return self._answer()

    def _answer(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        try:
            words, tensors = receive(self._from)
        except EOFError:
            code = self.process.wait()
            raise UserError(
                f"An acting process ended unexpectedly (exit code {code}); the run is saved up to its "
                "last checkpoint, so go on with --resume, or with fewer --num-processes."
            ) from None
        if "error" in words:
            raise UserError(words["error"])
        return words, tensors


def muster(config: RunConfig, psi: SuccessorFeatures, num_processes: int) -> list[Crew]:
    """Crews for all groups, in order: one group acts beside the learner, the others in processes."""
    groups = list(range(config.training.num_actor_groups))
    if num_processes == 1 or len(groups) == 1:
        return [LocalCrew(config, groups, psi)]
    shares = [s.tolist() for s in np.array_split(groups[1:], num_processes - 1) if len(s)]
    remote: list[Crew] = [RemoteCrew(config, share) for share in shares]
    return [LocalCrew(config, groups[:1], psi), *remote]


def group_sizes(config: RunConfig) -> list[int]:
    """The environments shared out as evenly as possible."""
    training = config.training
    num_envs, num_groups = training.num_envs - training.num_rewarded_envs, training.num_actor_groups
    return [num_envs // num_groups + (i < num_envs % num_groups) for i in range(num_groups)]


def group_seeds(config: RunConfig) -> list[int]:
    """A seed for every group, whoever plays it."""
    sequence = np.random.SeedSequence([config.training.seed, 1])
    return [int(s) for s in sequence.generate_state(config.training.num_actor_groups)]


def send(pipe: IO[bytes], words: dict[str, Any], tensors: dict[str, Tensor] | None = None) -> None:
    """One frame: its length, then safetensors with the words as metadata."""
    plain = {name: tensor.contiguous() for name, tensor in (tensors or {}).items()}
    frame = safetensors.torch.save(plain, metadata={"words": json.dumps(words)})
    pipe.write(len(frame).to_bytes(8, "little"))
    pipe.write(frame)
    pipe.flush()


def receive(pipe: IO[bytes]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The next frame; EOFError when the other side has gone."""
    length = int.from_bytes(pipe.read(8), "little")
    frame = pipe.read(length)
    if not length or len(frame) < length:
        raise EOFError
    header = json.loads(frame[8 : 8 + int.from_bytes(frame[:8], "little")])
    return json.loads(header["__metadata__"]["words"]), safetensors.torch.load(frame)


def spec_of(env: Any) -> EnvSpec:
    """The spaces of one environment of a vector."""
    return EnvSpec(env.single_observation_space, int(env.single_action_space.n))


def serve(orders: IO[bytes], answers: IO[bytes]) -> None:
    """The child's life: build the crew it is told to, then obey until the pipe closes."""
    try:
        words, _ = receive(orders)
        config = configuration.from_dict(words["config"])
        spec = spec_of(envs.make_vec(config, 1))
        psi = devices.prepared(new_psi(config.agent, spec), config.training)
        crew = LocalCrew(config, words["groups"], psi)
        while True:
            words, tensors = receive(orders)
            send(answers, *_obey(crew, psi, words, tensors))
    except UserError as error:
        send(answers, {"error": str(error)})
    except (EOFError, BrokenPipeError):
        pass


def _obey(
    crew: LocalCrew, psi: SuccessorFeatures, words: dict[str, Any], tensors: dict[str, Tensor]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    match words["do"]:
        case "collect":
            psi.load_state_dict(tensors)
            crew.begin(psi)
            unrolls = zip(crew.actors, crew.collect(), strict=True)
            return {}, {f"{g}.{k}": v for g, u in unrolls for k, v in u._asdict().items()}
        case "state":
            return {}, crew.state()
        case "load_state":
            crew.load_state(tensors, words["num_steps"])
        case "restart":
            crew.restart(words["num_steps"])
    return {"remembers": crew.remembers}, {}


def _main() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    devices.keep_freed_memory()
    # What environments print goes to stderr; the real stdout carries frames only.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
