"""The training loop on a cluster. The driver sends requests and counts; data bypasses it."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from visr.agents.base import Agent
from visr.cluster.queue import ClusterStats, QueuedUnrolls, UnrollQueue
from visr.cluster.remote_actors import RemoteActors
from visr.cluster.remote_learners import RemoteLearners
from visr.cluster.supervisor import wait_for, wait_for_any
from visr.cluster.workers import Weights, arrays, load_weights, tensors
from visr.config import RunConfig
from visr.errors import UserError
from visr.training.loop import Round, new_agent, steps_after, total_updates

_TICK = 1.0
"""Longest time in seconds between two yields of the loop."""


class ClusterLoop:
    """Actors and learners on many machines.

    With `max_staleness` 0 it runs synchronous rounds that equal the single-machine loop bit for bit: the
    learner uses the queued unrolls while all actors collect with the weights of the round's start.
    Otherwise it is asynchronous: each actor starts its next unroll with the latest weights as soon as the
    queue can take it, and the learner uses no unroll older than `max_staleness` updates.
    """

    replay = None
    """Unrolls are used once."""

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self._agent = new_agent(config).requires_grad_(False)
        _check_running_statistics(config, self._agent)
        self._stats = ClusterStats(config.training.unroll_length)
        self._queue = UnrollQueue(config.training.batch_size)
        self.num_collected_steps = self.num_updates = 0
        self._weights: Weights | None = None
        self._fetched: Weights | None = None
        self.learners = RemoteLearners(config)
        pids = self.learners.spawn()
        self.actors = RemoteActors(config, self._stats)
        try:
            self._start_learners(pids)
            self._wait_for_actors()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.actors.close()
        self.learners.close()

    # ------------------------------------------------------------------- the Trainer protocol

    @property
    def is_done(self) -> bool:
        """Whether the learner has used all steps of the run."""
        return self.num_updates >= total_updates(self.config)

    @property
    def num_steps(self) -> int:
        """Steps that the learner has consumed."""
        return steps_after(self.config, self.num_updates)

    @property
    def total_steps(self) -> int:
        return self.config.training.num_steps

    @property
    def agent(self) -> Agent:
        """The current networks, fetched from the learner on demand."""
        newest = self._newest_weights()
        if self._fetched is not newest:
            load_weights(self._agent, *self.learners.get([newest.psi, newest.others]))
            self._fetched = newest
        return self._agent

    @property
    def can_save_now(self) -> bool:
        """Whether a checkpoint would be complete; synchronous rounds need all workers for that."""
        return not self._is_synchronous or not self.actors.num_missing

    def extra_rows(self) -> dict[str, dict[str, float]]:
        """Cluster statistics and returns of the rewarded environments since the last call."""
        return {"cluster": self.stats(), "online": self.actors.online_row()}

    def stats(self) -> dict[str, float]:
        """Cluster statistics since the last call."""
        now = {
            "actors": float(self.actors.num_ready),
            "queue": float(len(self._queue)),
            "actors_replaced": float(self.actors.num_replaced),
            "unrolls_dropped": float(self._queue.num_dropped),
        }
        return self._stats.row(now)

    def rounds(self) -> Generator[Round]:
        """Act and learn until done; the caller decides when to log, save or stop."""
        while not self.is_done:
            yield from (
                self._synchronous_round() if self._is_synchronous else self._asynchronous_turn()
            )

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """Synchronous: everything that the single-machine loop saves; asynchronous: the learner alone."""
        if self._is_synchronous:
            state = self.learners.state(self._queue.drain())
        else:
            state = _of(self.learners.state([]), "learner.")
        state |= self.actors.state(with_groups=self._is_synchronous)
        counts = {"num_steps": self.num_collected_steps, "num_updates": self.num_updates}
        return tensors(state), counts

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`; starts new learners if the old ones are lost."""
        if not self.learners.are_running:
            self._stats.num_restarts += 1
            self._start_learners(self.learners.spawn())
        self.num_collected_steps, self.num_updates = counts["num_steps"], counts["num_updates"]
        state = arrays(tensors)
        waiting = tensors.get("waiting.w")
        self.learners.load_state(_of(state, "learner.", "waiting."), self.num_updates)
        self._queue.reset(self.num_updates, 0 if waiting is None else len(waiting))
        self._weights = None
        self.actors.reset(self.num_collected_steps)
        while self.actors.are_acting:
            self._wait_and_queue()
        self.actors.load_state(state, self.num_collected_steps)

    def reset_unsaveable_envs(self) -> None:
        """Reset and reseed environments whose state cannot be saved (synchronous only)."""
        if self._is_synchronous:
            self.actors.reset_unsaveable_envs(self.num_collected_steps)

    # ------------------------------------------------------------------------------ synchronous

    @property
    def _is_synchronous(self) -> bool:
        return self.config.cluster.max_staleness == 0

    def _synchronous_round(self) -> Iterator[Round]:
        """All actors use the same weights while the learner uses the queued unrolls."""
        while not self.actors.num_ready:
            self._wait_and_queue()
            yield Round(self.num_updates, [])
        if len(self._queue) < self._num_unrolls_left():
            self.actors.begin(self._newest_weights())
        if len(self._queue) >= self.config.training.batch_size:
            self.learners.learn(self._queue.take_all())
        arrived: dict[int, QueuedUnrolls] = {}
        metrics: list[dict[str, float]] = []
        while self.learners.pending or self.actors.are_acting:
            ready = self._wait()
            arrived |= dict(self.actors.receive(ready))
            if self.learners.is_finished(ready):
                metrics = self._finish_learning()
        self._enqueue([arrived[group] for group in sorted(arrived)])
        yield Round(self.num_updates, metrics)

    # ------------------------------------------------------------------------------ asynchronous

    def _asynchronous_turn(self) -> Iterator[Round]:
        """Learn from queued unrolls while actors continue; without a full batch, wait a little."""
        cluster = self.config.cluster
        most = min(cluster.publish_every, total_updates(self.config) - self.num_updates)
        if taken := self._queue.take(self.num_updates, most, cluster.max_staleness):
            self.learners.learn(taken)
        until = time.monotonic() + _TICK
        while self.learners.pending or time.monotonic() < until:
            self._start_free_actors()
            ready = self._wait_and_queue()
            if self.learners.is_finished(ready):
                metrics = self._finish_learning()
                yield Round(self.num_updates, metrics)
                return
            if not taken and len(self._queue) >= self.config.training.batch_size:
                return
        yield Round(self.num_updates, [])

    def _start_free_actors(self) -> None:
        """Start free actors only while their unrolls can be used before they are too stale."""
        cluster, waiting = self.config.cluster, len(self._queue)
        most_updates = cluster.max_staleness - cluster.publish_every + 2
        capacity = most_updates * self.config.training.batch_size - waiting
        wanted = self._num_unrolls_left() - waiting
        self.actors.begin(self._newest_weights(), wanted, capacity, self.num_collected_steps)

    # ------------------------------------------------------------------------------ both

    def _newest_weights(self) -> Weights:
        if self._weights is None:
            self._weights = self.learners.publish(self.num_updates)
        return self._weights

    def _num_unrolls_left(self) -> int:
        """Unrolls that the learner still needs to the end of the run."""
        return (total_updates(self.config) - self.num_updates) * self.config.training.batch_size

    def _finish_learning(self) -> list[dict[str, float]]:
        """Count the updates and take the new weights."""
        if (result := self.learners.result()) is None:
            self._queue.drop_taken()
            return []
        report, published = result
        made = len(report["metrics"])
        self._stats.add_learning(report, self._queue.consume(self.num_updates, made))
        self.num_updates += made
        self._weights = Weights(*published, self.num_updates)
        return report["metrics"]

    def _wait_and_queue(self) -> set[Any]:
        ready = self._wait()
        self._enqueue([waiting for _, waiting in self.actors.receive(ready)])
        return ready

    def _enqueue(self, arrived: list[QueuedUnrolls]) -> None:
        for waiting in arrived:
            self._queue.add(waiting)
            self.num_collected_steps += waiting.size * self.config.training.unroll_length

    def _wait(self) -> set[Any]:
        """References that are ready, as soon as one is or a tick has passed."""
        return wait_for_any([*self.learners.pending, *self.actors.pending], _TICK)

    def _start_learners(self, pids: list[Any]) -> None:
        def missing() -> str:
            num_started = len(wait_for_any(pids, _TICK))
            return "a place for the learner" if num_started < len(pids) else ""

        wait_for(missing)
        self.learners.prepare(pids)

    def _wait_for_actors(self) -> None:
        """Synchronous rounds need all actors; otherwise each starts when it is ready."""

        def missing() -> str:
            self._wait_and_queue()
            num_missing = self.actors.num_missing
            return f"{num_missing} of {self.actors.num_workers} actors" if num_missing else ""

        if self._is_synchronous:
            wait_for(missing)


def _of(state: dict[str, NDArray], *prefixes: str) -> dict[str, NDArray]:
    return {name: array for name, array in state.items() if name.startswith(prefixes)}


def _check_running_statistics(config: RunConfig, agent: Agent) -> None:
    """Refuse several learners with running statistics: each would follow its own data."""
    several, kept = config.cluster.num_learners, [name for name, _ in agent.named_buffers()]
    if several > 1 and kept:
        raise UserError(
            f"num_learners = {several} does not work with running statistics of observations ({kept[0]}), "
            "which would differ between learners; use --num-learners 1."
        )
