"""The queue's arithmetic: what is taken, in what order, how stale it will be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some

from visr.cluster.queue import QueuedUnrolls, UnrollQueue


def test_staleness_follows_from_the_place_in_the_queue():
    # batches of 4; actors of 3 unrolls each, all of which began with the weights of update 10
    #   a a a b | b b c c | c        update 11 uses a and b, update 12 b and c, one c is kept
    queue = UnrollQueue(batch_size=4)
    for name in "abc":
        queue.add(QueuedUnrolls(name, size=3, version=10))
    assert queue.take(num_updates=11, most=2, max_staleness=3) == ["a", "b", "c"]
    assert len(queue) == 9
    assert queue.consume(num_updates=11, made=2) == [(1, 3), (1, 1), (2, 2), (2, 2)]
    assert (len(queue), queue.num_kept) == (1, 1)


def test_unrolls_that_are_too_stale_are_dropped():
    # batches of 4, at most 1 update old: a would be used by update 5 (2 updates old), b and c by 5 too
    queue = UnrollQueue(batch_size=4)
    queue.add(QueuedUnrolls("a", size=4, version=3))
    queue.add(QueuedUnrolls("b", size=2, version=4))
    queue.add(QueuedUnrolls("c", size=2, version=5))
    assert queue.take(num_updates=5, most=1, max_staleness=1) == ["b", "c"]
    assert queue.num_dropped == 4
    assert queue.consume(num_updates=5, made=1) == [(1, 2), (0, 2)]


def test_less_than_a_batch_is_left_waiting_in_its_order():
    queue = UnrollQueue(batch_size=4)
    queue.add(QueuedUnrolls("a", size=1, version=0))
    queue.add(QueuedUnrolls("b", size=2, version=0))
    assert queue.take(num_updates=0, most=1, max_staleness=0) == []
    queue.add(QueuedUnrolls("c", size=1, version=0))
    assert queue.take(num_updates=0, most=1, max_staleness=0) == ["a", "b", "c"]


def test_lost_unrolls_count_as_dropped():
    queue = UnrollQueue(batch_size=2)
    queue.add(QueuedUnrolls("a", size=2, version=0))
    assert queue.take_all() == ["a"]
    queue.drop_taken()
    assert (len(queue), queue.num_dropped) == (0, 2)


@given(
    batch_size=some.integers(1, 8),
    sizes=some.lists(some.integers(1, 8), max_size=30),
    most=some.integers(1, 3),
    max_staleness=some.integers(1, 4),
)
def test_every_unroll_is_used_dropped_or_queued_exactly_once(
    batch_size: int, sizes: list[int], most: int, max_staleness: int
):
    queue, updates, used = UnrollQueue(batch_size), 0, 0
    for number, size in enumerate(sizes):
        queue.add(QueuedUnrolls(number, size, version=max(0, updates - number % 3)))
        if queue.take(updates, most, max_staleness):
            before = len(queue)
            made = min(most, before // batch_size)
            stale = queue.consume(updates, made)
            assert all(0 <= staleness <= max_staleness for staleness, _ in stale)
            assert sum(count for _, count in stale) == made * batch_size == before - len(queue)
            updates, used = updates + made, used + made * batch_size
    assert used + queue.num_dropped + len(queue) == sum(sizes)
