"""The replay learner's updates against the bare forward and backward passes of one batch."""

from __future__ import annotations

from typing import Any

from visr import config as configuration
from visr.agents import task_sampling
from visr.bench.meter import Job, compared, rate, take_turns
from visr.config import presets
from visr.training.replay_loop import ReplayLoop

ENVS = {
    "replay-grid": "visr/Grid-v0",
    "replay-vectors": "CartPole-v1",
    "replay-minatar": "MinAtar/Breakout-v1",
}
"""The environment of each preset."""
_WARM_UP = 20_000
_ROUND = 20
"""Updates that share the tasks drawn before them; about as many as between two unrolls."""


def replay(preset: str, seconds: float) -> dict[str, Any]:
    """Updates with sampling, relabelling, Adam and the target network, against the passes alone.

    A pass: the target network forward, psi forward and backward with its losses, always on the same batch.
    """
    config = configuration.replace(presets.get(preset), env=ENVS[preset])
    steps = {"warmup_steps": _WARM_UP, "num_stages": 1, "num_updates": 1}
    config = configuration.replace(config, num_steps=10 * _WARM_UP, **steps)
    loop = ReplayLoop(config)
    rounds = loop.rounds()
    while loop.num_steps < _WARM_UP:
        next(rounds)
    loop._begin_stage()
    jobs = {"learner": lambda: len(loop._learn(_ROUND)), "passes": _passes(loop)}
    jobs["acting"] = lambda: _acted(loop)
    turns = take_turns(jobs, seconds)
    rounds.close()
    loop.close()
    return {
        **compared(turns["learner"], turns["passes"], "cpu", "updates"),
        "acting_steps_per_second": rate(turns["acting"], "cpu"),
        "env": config.env,
        "transitions_per_update": loop._batch_sizes()[1],
        "tasks_per_update": loop._batch_sizes()[0],
    }


def _acted(loop: ReplayLoop) -> int:
    """Steps of one unroll of every environment."""
    (pool,) = loop.actor_pools
    pool.begin(loop.agent.psi, loop.practice.pursuit)
    return sum(unroll.num_steps for unroll in pool.collect())


def _passes(loop: ReplayLoop) -> Job:
    """Losses and gradients of one batch."""
    agent, rng = loop.agent, loop._rng
    size, num_steps = loop._batch_sizes()
    w = task_sampling.practised(agent, size, loop._chi, rng)
    batch = loop.recorded.batch(agent, w, num_steps, rng)

    def job() -> int:
        agent.losses(batch).total.backward()
        agent.psi.zero_grad(set_to_none=True)
        return 1

    return job
