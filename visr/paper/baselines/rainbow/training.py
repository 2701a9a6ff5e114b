"""Rainbow from start to end: its run on disk, with a memory in pieces, resumed to the same end."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import safetensors
import safetensors.torch

from visr import envs
from visr.config import RunConfig
from visr.errors import UserError
from visr.paper.baselines.rainbow.agent import Rainbow, greedy, new_network
from visr.storage.files import write_tensors
from visr.storage.run_dir import RunDir
from visr.storage.tables import forget_rows_after
from visr.training import checkpoint, devices
from visr.training.actor_pool import spec_of
from visr.training.learner import within
from visr.training.metrics import Recorder

Watch = Callable[[int, Recorder], bool]
"""Told of the steps done and of what is written; whether to stop."""
_ATTENTION = 100
"""Steps between two such calls."""


def train(run: RunDir, config: RunConfig, watch: Watch = lambda *_: False) -> bool:
    """Train to the last step, from nothing or from the newest checkpoint; False if asked to stop before."""
    num_steps = config.training.num_steps
    if run.checkpoint(num_steps).exists():
        return True
    with (
        devices.threads(config.training),
        contextlib.closing(Rainbow(config)) as agent,
        contextlib.closing(Recorder(run)) as recorder,
    ):
        _restore(run, agent, recorder)
        while agent.num_steps < num_steps:
            if report := agent.step():
                recorder.add([report])
            if agent.num_steps % config.training.log_every == 0 or agent.num_steps == num_steps:
                _write_rows(agent, recorder)
            if agent.num_steps == num_steps:
                break
            if agent.num_steps % config.training.checkpoint_every == 0:
                _save(run, agent, recorder)
            if agent.num_steps % _ATTENTION == 0 and watch(agent.num_steps, recorder):
                return False
        checkpoint.save(run, *agent.state(), num_steps=num_steps)
    for piece in run.replay_pieces():  # nothing will be learnt from them any more
        piece.unlink()
    return True


def load(run: RunDir, config: RunConfig) -> tuple[Callable[[np.ndarray], np.ndarray], int]:
    """A finished run's greedy policy, without noise, and its number of actions; only tensors are read."""
    finished = run.checkpoint(config.training.num_steps)
    if not finished.exists():
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    env = envs.make_vec(config, 1)
    network = new_network(config, spec_of(env)).eval()
    env.close()
    tensors, _ = checkpoint.load(finished)
    with checkpoint.fitting(finished):
        network.load_state_dict(within(tensors, "learner.network."))
    return lambda observation: greedy(network, observation), network.num_actions


def _write_rows(agent: Rainbow, recorder: Recorder) -> None:
    recorder.write(agent.num_steps, agent.learner.num_updates)
    if agent.returns:
        mean = sum(agent.returns) / len(agent.returns)
        row = {"num_episodes": float(len(agent.returns)), "mean_return": mean}
        recorder.write_online(agent.num_steps, row)
        agent.returns.clear()


def _save(run: RunDir, agent: Rainbow, recorder: Recorder) -> None:
    """The memory's new piece first: a checkpoint must find all that came before it."""
    agent.restart()
    piece = safetensors.torch.save(agent.memory.take_new())
    write_tensors(run.replay_piece(agent.num_steps), piece)
    tensors, counts = agent.state()
    tensors |= {f"recorder.{k}": v for k, v in recorder.state().items()}
    checkpoint.save(run, tensors, counts, num_steps=agent.num_steps)
    run.forget_old_replay(agent.memory.size)


def _restore(run: RunDir, agent: Rainbow, recorder: Recorder) -> None:
    """Back to the newest checkpoint or to the beginning, and nothing written after it remains."""
    if run.checkpoints():
        newest, tensors, counts = checkpoint.newest_sound(run)
        with checkpoint.fitting(newest):
            recorder.load_state(within(tensors, "recorder."))
            agent.load_state(tensors, counts)
        run.set_aside_after(newest)
    for path in run.replay_pieces():
        if int(path.stem) > agent.num_steps:
            path.unlink()
        else:
            with checkpoint.fitting(path):
                agent.memory.restore(checkpoint.tensors(path, "train anew"))
    for file in (run.metrics, run.timing, run.online):
        forget_rows_after(file, agent.num_steps)
