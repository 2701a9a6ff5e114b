"""The loop on a cluster: the driver gives orders and keeps count; unrolls and weights go past it."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from visr import envs
from visr.agents.registry import Agent
from visr.cluster.actors import Actors
from visr.cluster.learners import Learners
from visr.cluster.online_evaluation import RewardedSeat
from visr.cluster.queue import Queue, Waiting
from visr.cluster.stats import Vitals
from visr.cluster.supervisor import wait_for_any
from visr.cluster.workers import Weights, arrays, load_weights, tensors
from visr.config import RunConfig
from visr.errors import UserError
from visr.training.actor_pool import spec_of
from visr.training.loop import Round, new_agent, total_updates

log = logging.getLogger("visr.cluster")

_TICK = 1.0
"""Seconds after which whoever iterates gets a turn, even if nothing has happened."""
_REMIND_EVERY = 30.0
"""Seconds between remarks about who is being waited for."""
_NO_LIMIT = 2**62


class ClusterLoop:
    """Everything that moves in a run, on many machines.

    With `max_staleness` 0 it goes in rounds, unroll by unroll the same as the single-machine loop: the
    learner works through what waits while all actors collect with the weights of the round's start.
    Otherwise actors never wait for each other: each begins anew with the latest weights as soon as there is
    room, and the learner takes batches in order of arrival, no unroll older than `max_staleness` updates.
    """

    def __init__(self, config: RunConfig, where: str = "auto") -> None:
        self.config, self.where = config, where
        self.spec = spec_of(envs.make_vec(config, 1))
        self._agent = new_agent(config, self.spec).requires_grad_(False)
        _refuse_statistics_that_would_differ(config, self._agent)
        self._vitals = Vitals(config.training.unroll_length)
        self._queue = Queue(config.training.batch_size)
        self.num_steps = self.num_updates = 0
        self._weights: Weights | None = None
        self._fetched: Weights | None = None
        self.learners = Learners(config)
        hellos = self.learners.spawn()
        self.actors = Actors(config, self._vitals)
        self.online = RewardedSeat(config) if config.training.num_rewarded_envs else None
        try:
            self._welcome_learners(hellos)
            self._welcome_actors()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End every process that was begun."""
        self.actors.close()
        self.learners.close()
        if self.online:
            self.online.close()

    # ------------------------------------------------------------------- what pretraining asks

    @property
    def is_done(self) -> bool:
        """Whether the learner has seen all the steps it was promised."""
        return self.num_updates >= total_updates(self.config)

    @property
    def num_learned_steps(self) -> int:
        """Steps the learner has consumed: what the run's counts of steps mean."""
        training = self.config.training
        return self.num_updates * training.batch_size * training.unroll_length

    @property
    def agent(self) -> Agent:
        """The networks as they are now, fetched only when somebody looks."""
        newest = self._newest_weights()
        if self._fetched is not newest:
            load_weights(self._agent, *self.learners.fetch([newest.psi, newest.others]))
            self._fetched = newest
        return self._agent

    @property
    def remembers(self) -> bool:
        """Whether a stop may save at any time: in rounds, if environments can be put back."""
        return not self._goes_in_rounds or self.actors.remember

    def vitals(self) -> dict[str, float]:
        """How the cluster has fared since the last call."""
        now = {
            "actors": float(self.actors.num_ready),
            "queue": float(len(self._queue)),
            "actors_replaced": float(self.actors.num_replaced),
            "unrolls_dropped": float(self._queue.num_dropped),
        }
        return self._vitals.row(now)

    def rounds(self) -> Generator[Round]:
        """Act and learn until done; whoever iterates decides when to log, save or stop."""
        while not self.is_done:
            yield from self._round_in_step() if self._goes_in_rounds else self._turn()

    def state(self) -> tuple[dict[str, Tensor], dict[str, int]]:
        """In rounds, all that the single-machine loop saves; else what was learnt, and nothing half-done."""
        if self._goes_in_rounds:
            state = self.learners.state(self._queue.hand_over()) | self.actors.state()
        else:
            state = {k: v for k, v in self.learners.state([]).items() if k.startswith("learner.")}
        if self.online:
            state |= self.online.state()
        return tensors(state), {"num_steps": self.num_steps, "num_updates": self.num_updates}

    def load_state(self, tensors: dict[str, Tensor], counts: dict[str, int]) -> None:
        """The inverse of `state`; after a setback a new learner takes up the old one's work."""
        if not self.learners.are_there:
            self._vitals.num_restarts += 1
            self._welcome_learners(self.learners.spawn())
        self.num_steps, self.num_updates = counts["num_steps"], counts["num_updates"]
        state = arrays(tensors)
        waiting = tensors.get("waiting.w")
        self.learners.load_state(_of(state, "learner.", "waiting."), self.num_updates)
        self._queue.start_anew(self.num_updates, 0 if waiting is None else len(waiting))
        self._weights = None
        self.actors.start_anew(self.num_steps)
        while self.actors.num_acting or self._rewarded_act():
            self._attend(_TICK)
        self.actors.load_state(state, self.num_steps)
        if self.online:
            self.online.load_state(state, self.num_steps)

    def restart_forgetful_environments(self) -> None:
        """Reset and reseed environments whose state cannot be saved; only rounds can be resumed exactly."""
        if self._goes_in_rounds:
            self.actors.restart(self.num_steps)
            if self.online:
                self.online.restart(self.num_steps)

    # ------------------------------------------------------------------------------ in rounds

    @property
    def _goes_in_rounds(self) -> bool:
        return self.config.cluster.max_staleness == 0

    def _round_in_step(self) -> Iterator[Round]:
        """Everybody acts with the same weights while the learner learns what waited."""
        while not self.actors.num_ready:
            self._attend(_TICK)
            yield Round(self.num_steps, self.num_updates, [])
        if len(self._queue) < self._num_unrolls_left():
            self.actors.begin(self._newest_weights(), _NO_LIMIT, _NO_LIMIT)
            if self.online:
                self.online.begin(self._newest_weights())
        if len(self._queue) >= self.config.training.batch_size:
            self.learners.learn(self._queue.take_all())
        arrived: dict[int, Waiting] = {}
        metrics: list[dict[str, float]] = []
        while self.learners.pending or self.actors.num_acting or self._rewarded_act():
            ready = self._wait(_TICK)
            arrived |= dict(self._attend_to(ready))
            if self.learners.is_finished(ready):
                metrics = self._finish_learning()
        self._collect([arrived[group] for group in sorted(arrived)])
        yield Round(self.num_steps, self.num_updates, metrics)

    # ------------------------------------------------------------------ without waiting for others

    def _turn(self) -> Iterator[Round]:
        """Learn from what waits, and meanwhile attend to actors; or else wait for them a little."""
        cluster = self.config.cluster
        most = min(cluster.publish_every, total_updates(self.config) - self.num_updates)
        if taken := self._queue.take(self.num_updates, most, cluster.max_staleness):
            self.learners.learn(taken)
        until = time.monotonic() + _TICK
        while self.learners.pending or time.monotonic() < until:
            self._begin_where_there_is_room()
            ready = self._attend(_TICK)
            if self.learners.is_finished(ready):
                metrics = self._finish_learning()
                yield Round(self.num_steps, self.num_updates, metrics)
                return
            if not taken and len(self._queue) >= self.config.training.batch_size:
                return
        yield Round(self.num_steps, self.num_updates, [])

    def _begin_where_there_is_room(self) -> None:
        """Back-pressure: unrolls under way and waiting are no more than can be used while fresh enough."""
        cluster = self.config.cluster
        fresh = (
            cluster.max_staleness - cluster.publish_every + 2
        ) * self.config.training.batch_size
        waiting = len(self._queue)
        wanted, room = self._num_unrolls_left() - waiting, fresh - waiting
        self.actors.begin(self._newest_weights(), wanted, room)
        if self.online and self.online.is_behind(self.num_steps):
            self.online.begin(self._newest_weights())

    # -------------------------------------------------------------------------------- both ways

    def _newest_weights(self) -> Weights:
        if self._weights is None:
            self._weights = self.learners.publish(self.num_updates)
        return self._weights

    def _num_unrolls_left(self) -> int:
        """What the learner still needs, to the end of the run."""
        return (total_updates(self.config) - self.num_updates) * self.config.training.batch_size

    def _finish_learning(self) -> list[dict[str, float]]:
        """Count what was learnt, once, and take over the new weights."""
        if (result := self.learners.result()) is None:
            self._queue.lose()
            return []
        report, published = result
        made = len(report["metrics"])
        self._vitals.learnt(report, self._queue.learnt(self.num_updates, made))
        self.num_updates += made
        self._weights = Weights(*published, self.num_updates)
        return report["metrics"]

    def _attend(self, seconds: float) -> set[Any]:
        ready = self._wait(seconds)
        self._collect([waiting for _, waiting in self._attend_to(ready)])
        return ready

    def _attend_to(self, ready: set[Any]) -> list[tuple[int, Waiting]]:
        if self.online:
            self.online.attend(ready)
        return self.actors.attend(ready)

    def _collect(self, arrived: list[Waiting]) -> None:
        for waiting in arrived:
            self._queue.add(waiting)
            self.num_steps += waiting.size * self.config.training.unroll_length

    def _wait(self, seconds: float) -> set[Any]:
        """References that are there, as soon as one is."""
        online = self.online.pending if self.online else []
        return wait_for_any([*self.learners.pending, *self.actors.pending, *online], seconds)

    def _rewarded_act(self) -> bool:
        return self.online is not None and self.online.is_acting

    def _welcome_learners(self, hellos: list[Any]) -> None:
        reminded = time.monotonic()
        while len(wait_for_any(hellos, _TICK)) < len(hellos):
            if time.monotonic() - reminded > _REMIND_EVERY:
                reminded = time.monotonic()
                log.warning("Waiting for a place for the learner; `ray status` shows what is free.")
        self.learners.prepare(hellos)

    def _welcome_actors(self) -> None:
        """In rounds all must be there before the first; otherwise whoever comes may begin."""
        reminded, seats = time.monotonic(), [*self.actors.seats]
        seats += [self.online.seat] if self.online else []
        while self._goes_in_rounds and not all(seat.is_ready for seat in seats):
            self._attend(_TICK)
            if time.monotonic() - reminded > _REMIND_EVERY:
                reminded, missing = time.monotonic(), sum(not seat.is_ready for seat in seats)
                log.warning(
                    "Waiting for %d of %d actors; `ray status` shows what is free.",
                    *(missing, len(seats)),
                )


def _of(state: dict[str, NDArray], *prefixes: str) -> dict[str, NDArray]:
    return {name: array for name, array in state.items() if name.startswith(prefixes)}


def _refuse_statistics_that_would_differ(config: RunConfig, agent: Agent) -> None:
    """Learners that share batches must hold equal networks, and a buffer follows its own learner's data."""
    several, kept = config.cluster.num_learners, [name for name, _ in agent.named_buffers()]
    if several > 1 and kept:
        raise UserError(
            f"num_learners = {several} does not go with running statistics of observations ({kept[0]}), "
            "which every learner would keep for itself; use --num-learners 1."
        )
