"""How many actors can one learner use? Measures the times of each part, then simulates up to 800 actors.

python experiments/cluster_simulation.py --preset atari --learner-speedup 64
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import heapq
import json
import math
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments import ray_latency as latency
from visr import config as configuration
from visr.cluster import workers
from visr.cluster.queue import QueuedUnrolls, UnrollQueue
from visr.config import RunConfig, presets

_ONE_ACTOR = {"num_rewarded_envs": 0, "num_processes": 1, "num_actor_groups": 1, "num_threads": 1}
_NUM_ACTORS = (1, 2, 4, 8, 16, 25, 50, 100, 200, 400, 800)
_PAPERS_ACTORS = 100
_SPEEDUPS = (1, 4, 16, 64, 256)
"""Assumed speed-ups of a learner on a GPU over one core of this machine."""
_LINK = 10e9 / 8
"""Bytes per second of the network that the simulation assumes: 10 Gbit/s."""
_NUM_GAMES, _STEPS_PER_GAME = 57, 250_000_000
_MAX_STALENESS = 8


def main() -> None:
    """Measure and simulate, and print one JSON object."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="atari")
    parser.add_argument("--env", default="ALE/Pong-v5")
    parser.add_argument("--num-envs", type=int, default=1, help="environments of each actor")
    parser.add_argument("--learner-speedup", type=float, default=1.0)
    options = parser.parse_args()
    fields = {"env": options.env, "num_envs": options.num_envs, "device": "cpu", **_ONE_ACTOR}
    config = configuration.replace(presets.get(options.preset), **fields)
    print(json.dumps(simulate_cluster(config, options.learner_speedup), indent=2))


def simulate_cluster(config: RunConfig, learner_speedup: float) -> dict[str, Any]:
    """Measure acting, learning, messages and transfers; simulate clusters of many sizes with these times.

    `learner_speedup`: assume a learner that many times as fast as one core of this machine.
    """
    training, measured = config.training, _measured(config)
    times = dataclasses.replace(measured, learn=measured.learn / learner_speedup)
    sizes = {
        "unrolls_per_actor": training.num_envs,
        "batch_size": training.batch_size,
        "unroll_length": training.unroll_length,
        "max_staleness": _MAX_STALENESS,
    }
    limit = training.batch_size * training.unroll_length / times.learn
    scaling = [simulate(times, number, **sizes) for number in _NUM_ACTORS]
    papers = scaling[_NUM_ACTORS.index(_PAPERS_ACTORS)].steps_per_second
    act_seconds = statistics.mean(times.act)
    return {
        "steps_per_second": papers,
        "limit_steps_per_second": limit,
        "ratio": papers / limit,
        "saturates_at_actors": saturation(scaling),
        "act_seconds": act_seconds,
        "learn_seconds": measured.learn,
        "learner_speedup": learner_speedup,
        "transfer_seconds": times.transfer,
        "request_seconds": times.request,
        "acting_steps_per_second": training.num_envs * training.unroll_length / act_seconds,
        "env": config.env,
        "envs_per_actor": training.num_envs,
        "scaling": [outcome._asdict() for outcome in scaling],
        "sizing": [_sized(measured, speedup, sizes) for speedup in _SPEEDUPS],
    }


@dataclass(frozen=True)
class Times:
    """Measured seconds that a simulation uses."""

    act: tuple[float, ...]
    """One actor's unrolls, measured several times; the simulation draws from them."""
    transfer: float
    """One actor's unrolls over the link to the learner, which carries one at a time."""
    learn: float
    """One update."""
    request: float
    """From a result to the next request: the driver and Ray's messages."""


def _measured(config: RunConfig) -> Times:
    """Times of the code that actors and learners run, and of Ray between two nodes of this machine."""
    batch_size, size = config.training.batch_size, config.training.num_envs
    with one_core():
        actor, learner = workers.ActorWorker(config, 0, seed=0), workers.LearnerWorker(config, 0)
        actor.prepare()
        learner.prepare(None)
        psi, _ = learner.publish()
        actor.collect(psi)
        played = [_timed(lambda: actor.collect(psi)[0]) for _ in range(-(-batch_size // size))]
        unrolls = [unroll for unroll, _ in played]
        learner.learn(*unrolls)
        learnt = [_timed(lambda: learner.learn(*unrolls)[2]["metrics"]) for _ in range(3)]
    num_bytes = sum(field.nbytes for field in unrolls[0])
    with latency.nodes(0, 1):
        request, transfer = (
            latency.request_seconds(),
            latency.transfer_seconds(num_bytes, len(unrolls)),
        )
    per_update = [seconds / len(metrics) for metrics, seconds in learnt]
    return Times(
        act=tuple(seconds for _, seconds in played),
        transfer=transfer + num_bytes / _LINK,
        learn=statistics.median(per_update),
        request=request,
    )


@contextlib.contextmanager
def one_core() -> Iterator[bool]:
    """Keep this process and all that it starts on one core, where the system permits it."""
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield True
    finally:
        os.sched_setaffinity(0, cores)


def _timed(job: Callable[[], Any]) -> tuple[Any, float]:
    """A job's result and its CPU time, which does not depend on how busy the core is."""
    start = time.process_time()
    return job(), time.process_time() - start


def _sized(times: Times, speedup: int, sizes: dict[str, int]) -> dict[str, float]:
    """A learner that many times as fast, and as many actors as it needs."""
    faster = dataclasses.replace(times, learn=times.learn / speedup)
    number = actors_per_learner(
        statistics.mean(times.act), sizes["unrolls_per_actor"], faster.learn, sizes["batch_size"]
    )
    outcome = simulate(faster, number, **sizes)
    days = _NUM_GAMES * _STEPS_PER_GAME / outcome.steps_per_second / 86_400
    return {
        "learner_speedup": speedup,
        "actor_cpus": number,
        "steps_per_second": outcome.steps_per_second,
        "learner_busy": outcome.learner_busy,
        "link_busy": outcome.link_busy,
        "days_per_game": days / _NUM_GAMES,
        "days_for_57_games": days,
    }


class Outcome(NamedTuple):
    """Speed and load of one simulated cluster."""

    num_actors: int
    steps_per_second: float
    learner_busy: float
    """Share of the time."""
    link_busy: float
    actors_busy: float
    staleness: float
    """Updates, on average."""
    dropped: float
    """Share of the unrolls."""


def simulate(
    times: Times,
    num_actors: int,
    *,
    unrolls_per_actor: int,
    batch_size: int,
    unroll_length: int,
    max_staleness: int,
    num_updates: int = 200,
    seed: int = 0,
) -> Outcome:
    """Simulate the rules of the cluster: back-pressure, order of arrival, bounded staleness.

    An actor starts when the queue has space for its unrolls, acts, and sends them when the link is free; the
    learner takes whole batches from the queue, which is the class that training uses.
    """
    simulation = _Simulation(times, num_actors, unrolls_per_actor, batch_size, max_staleness, seed)
    simulation.run(num_updates)
    seconds, steps = simulation.now, simulation.updates * batch_size * unroll_length
    used = max(simulation.used, 1)
    return Outcome(
        num_actors=num_actors,
        steps_per_second=steps / seconds,
        learner_busy=simulation.learning / seconds,
        link_busy=min(simulation.sending / seconds, 1.0),  # some transfers may not have ended
        actors_busy=simulation.acting / (seconds * num_actors),
        staleness=simulation.stale / used,
        dropped=simulation.queue.num_dropped / (simulation.queue.num_dropped + used),
    )


class _Simulation:
    def __init__(
        self, times: Times, num_actors: int, size: int, batch: int, max_staleness: int, seed: int
    ) -> None:
        self.times, self.size, self.batch, self.most = times, size, batch, max_staleness
        self.rng, self.queue = random.Random(seed), UnrollQueue(batch)
        self.free, self.under_way = num_actors, 0
        self.capacity = (max_staleness + 1) * batch
        self.now = self.link_free_at = 0.0
        self.acting = self.sending = self.learning = 0.0
        self.updates = self.used = self.stale = 0
        self.is_learning = False
        self.events: list[tuple[float, int, str, int]] = []

    def run(self, num_updates: int) -> None:
        """Process events until that many updates are done."""
        while self.updates < num_updates:
            self._begin_acting()
            self._begin_learning()
            self.now, _, what, version = heapq.heappop(self.events)
            if what == "acted":
                self._send(version)
            elif what == "arrived":
                self.under_way -= self.size
                self.queue.add(QueuedUnrolls(None, self.size, version))
            elif what == "free":
                self.free += 1
            else:
                self._finish_learning()

    def _at(self, when: float, what: str, version: int = 0) -> None:
        heapq.heappush(self.events, (when, len(self.events), what, version))

    def _begin_acting(self) -> None:
        space = self.capacity - len(self.queue) - self.under_way
        while self.free and self.size <= space:
            space -= self.size
            seconds = self.rng.choice(self.times.act)
            self.free, self.under_way = self.free - 1, self.under_way + self.size
            self.acting += seconds
            self._at(self.now + seconds, "acted", self.updates)

    def _send(self, version: int) -> None:
        """The actor is free once the driver knows its result; the link sends one thing at a time."""
        self._at(self.now + self.times.request, "free")
        begin = max(self.now, self.link_free_at)
        self.link_free_at = begin + self.times.transfer
        self.sending += self.times.transfer
        self._at(self.link_free_at, "arrived", version)

    def _begin_learning(self) -> None:
        if not self.is_learning and self.queue.take(self.updates, 1, self.most):
            self.is_learning = True
            self.learning += self.times.learn
            self._at(self.now + self.times.request + self.times.learn, "learnt")

    def _finish_learning(self) -> None:
        for staleness, count in self.queue.consume(self.updates, 1):
            self.stale, self.used = self.stale + staleness * count, self.used + count
        self.updates, self.is_learning = self.updates + 1, False


def saturation(outcomes: list[Outcome], share: float = 0.95) -> int:
    """The fewest actors that reach that share of the highest speed."""
    best = max(outcome.steps_per_second for outcome in outcomes)
    return min(o.num_actors for o in outcomes if o.steps_per_second >= share * best)


def actors_per_learner(act: float, unrolls_per_actor: int, learn: float, batch_size: int) -> int:
    """How many actors feed one learner if nothing else takes time.

    One update uses batch_size unrolls in `learn` seconds; an actor makes unrolls_per_actor in `act` seconds.
    """
    return math.ceil((batch_size / learn) / (unrolls_per_actor / act))


if __name__ == "__main__":
    main()
