"""An actor pool in a child process, with its own interpreter lock."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import safetensors.torch
import torch
from torch import Tensor

from visr import agents, envs, strict_json, working_directory
from visr import config as configuration
from visr.config import RunConfig
from visr.errors import UserError
from visr.networks.successor import SuccessorFeatures
from visr.training import devices
from visr.training.actor_pool import LocalActorPool
from visr.training.exploring_actor import actor_class
from visr.training.learner import within
from visr.types import Pursuit, Unroll


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Delay SIGINT in this thread; processes that it starts never see one."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class SubprocessActorPool:
    """The methods of `LocalActorPool`, sent as safetensors over two pipes; nothing is pickled."""

    def __init__(self, config: RunConfig, groups: list[int]) -> None:
        with (
            _interrupts_blocked()
        ):  # the child inherits it: an interrupt would end it within an import
            self.process = subprocess.Popen(
                working_directory.child_command("visr.training.subprocess_actor_pool"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=working_directory.child_environment(),
                start_new_session=True,  # only the parent handles signals; the child ends with its pipe
            )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._to, self._from = self.process.stdin, self.process.stdout
        self._groups = groups
        send(self._to, {"config": configuration.to_dict(config), "groups": groups})

    def begin(self, psi: SuccessorFeatures, pursuit: Pursuit | None = None) -> None:
        """Send the weights; the child acts while the learner works here."""
        sent = {f"psi.{name}": tensor for name, tensor in psi.state_dict().items()}
        sent |= {f"pursuit.{k}": v for k, v in pursuit._asdict().items()} if pursuit else {}
        self._request("collect", sent)

    def collect(self) -> list[Unroll]:
        """Receive the unrolls that `begin` requested."""
        _, tensors = self._answer()
        return [Unroll(**within(tensors, f"{group}.")) for group in self._groups]

    def reset_unsaveable_envs(self, num_steps: int) -> None:
        """Start new episodes in environments whose state cannot be saved."""
        self._request("reset_unsaveable_envs", num_steps=num_steps)
        self._answer()

    def state(self) -> dict[str, Tensor]:
        """Every tensor that decides the next unrolls, except the weights."""
        self._request("state")
        return self._answer()[1]

    def load_state(self, tensors: dict[str, Tensor], num_steps: int) -> None:
        """The inverse of `state`."""
        mine = tuple(f"actor{group}." for group in self._groups)
        sent = {name: tensor for name, tensor in tensors.items() if name.startswith(mine)}
        self._request("load_state", sent, num_steps=num_steps)
        self._answer()

    def close(self) -> None:
        """Close the pipes, which ends the child."""
        for pipe in (self._to, self._from):
            with contextlib.suppress(BrokenPipeError):  # the child may have ended already
                pipe.close()
        self.process.wait()

    def _request(self, do: str, tensors: dict[str, Tensor] | None = None, **arguments: int) -> None:
        with contextlib.suppress(BrokenPipeError):  # `_answer` will say why
            send(self._to, {"do": do, **arguments}, tensors)

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
    header = strict_json.parse(frame[8 : 8 + int.from_bytes(frame[:8], "little")])
    return strict_json.parse(header["__metadata__"]["message"]), safetensors.torch.load(frame)


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Build the pool that the first message describes, then answer requests until the pipe closes."""
    try:
        message, _ = receive(requests)
        config = configuration.from_dict(message["config"])
        agent = devices.prepared(
            agents.new(config.agent, envs.spec(config), config.replay), config.training
        )
        pool = LocalActorPool(config, message["groups"], agent, actor_class(config))
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
            psi.load_state_dict(within(tensors, "psi."))
            pursued = within(tensors, "pursuit.")
            pool.begin(psi, Pursuit(**pursued) if pursued else None)
            unrolls = zip(pool.actors, pool.collect(), strict=True)
            return {}, {f"{g}.{k}": v for g, u in unrolls for k, v in u._asdict().items()}
        case "state":
            return {}, pool.state()
        case "load_state":
            pool.load_state(tensors, message["num_steps"])
        case "reset_unsaveable_envs":
            pool.reset_unsaveable_envs(message["num_steps"])
    return {}, {}


def _main() -> None:
    working_directory.ignore_settings()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    devices.keep_freed_memory()
    # Environments that print write to stderr; the real stdout carries only frames.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    _main()
