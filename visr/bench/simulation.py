"""Actors, a link and a learner as events in time: where does adding actors stop helping?"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from typing import NamedTuple

from visr.cluster.queue import QueuedUnrolls, UnrollQueue


@dataclass(frozen=True)
class Times:
    """What a simulation is made of, in seconds; all of it can be measured."""

    act: tuple[float, ...]
    """Of one actor for its unrolls: as measured, one after the other; they are drawn from."""
    transfer: float
    """Of one actor's unrolls over the link to the learner, which carries one at a time."""
    learn: float
    """Of one update."""
    order: float
    """From a result to the next order: the driver and Ray's messages."""


class Outcome(NamedTuple):
    """What came of it."""

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
    """Play the cluster's own rules without waiting: back-pressure, order of arrival, bounded staleness.

    An actor begins when there is room for its unrolls, acts, sends them over the link when it is free; the
    learner takes whole batches from the queue. The queue is the one that training uses.
    """
    world = _World(times, num_actors, unrolls_per_actor, batch_size, max_staleness, seed)
    world.run(num_updates)
    seconds, steps = world.now, world.updates * batch_size * unroll_length
    used = max(world.used, 1)
    return Outcome(
        num_actors=num_actors,
        steps_per_second=steps / seconds,
        learner_busy=world.learning / seconds,
        link_busy=min(world.sending / seconds, 1.0),  # some may still be on their way
        actors_busy=world.acting / (seconds * num_actors),
        staleness=world.stale / used,
        dropped=world.queue.num_dropped / (world.queue.num_dropped + used),
    )


class _World:
    def __init__(
        self, times: Times, num_actors: int, size: int, batch: int, max_staleness: int, seed: int
    ) -> None:
        self.times, self.size, self.batch, self.most = times, size, batch, max_staleness
        self.dice, self.queue = random.Random(seed), UnrollQueue(batch)
        self.free, self.under_way = num_actors, 0
        self.room = (max_staleness + 1) * batch
        self.now = self.link_free_at = 0.0
        self.acting = self.sending = self.learning = 0.0
        self.updates = self.used = self.stale = 0
        self.is_learning = False
        self.events: list[tuple[float, int, str, int]] = []

    def run(self, num_updates: int) -> None:
        """Until so many updates have been made."""
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
        room = self.room - len(self.queue) - self.under_way
        while self.free and self.size <= room:
            room -= self.size
            seconds = self.dice.choice(self.times.act)
            self.free, self.under_way = self.free - 1, self.under_way + self.size
            self.acting += seconds
            self._at(self.now + seconds, "acted", self.updates)

    def _send(self, version: int) -> None:
        """The actor can begin anew as soon as the driver has heard of it; the link sends when it is free."""
        self._at(self.now + self.times.order, "free")
        begin = max(self.now, self.link_free_at)
        self.link_free_at = begin + self.times.transfer
        self.sending += self.times.transfer
        self._at(self.link_free_at, "arrived", version)

    def _begin_learning(self) -> None:
        if not self.is_learning and self.queue.take(self.updates, 1, self.most):
            self.is_learning = True
            self.learning += self.times.learn
            self._at(self.now + self.times.order + self.times.learn, "learnt")

    def _finish_learning(self) -> None:
        for staleness, count in self.queue.consume(self.updates, 1):
            self.stale, self.used = self.stale + staleness * count, self.used + count
        self.updates, self.is_learning = self.updates + 1, False


def saturation(outcomes: list[Outcome], share: float = 0.95) -> int:
    """The fewest actors that reach that share of the highest speed seen."""
    best = max(outcome.steps_per_second for outcome in outcomes)
    return min(o.num_actors for o in outcomes if o.steps_per_second >= share * best)


def actors_per_learner(act: float, unrolls_per_actor: int, learn: float, batch_size: int) -> int:
    """How many actors feed one learner, if nothing else took time.

    One update uses batch_size unrolls in `learn` seconds; an actor makes unrolls_per_actor in `act` seconds.
    """
    return math.ceil((batch_size / learn) / (unrolls_per_actor / act))
