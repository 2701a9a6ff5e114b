"""The replay buffer keeps the newest entries, and comes back from its pieces."""

from __future__ import annotations

import pytest
import torch

from visr.training.replay import ReplayBuffer
from visr.types import Unroll


def unrolls(first: int, count: int, length: int = 3) -> Unroll:
    """Unrolls that are numbered: `w` is the number, `reward[t]` is 10 times the number plus t."""
    number = torch.arange(first, first + count)
    time = torch.arange(length)[:, None]
    flag = torch.zeros(length, count, dtype=torch.bool)
    return Unroll(
        observation=(10 * number + torch.arange(length + 1)[:, None]),
        action=torch.zeros(length, count, dtype=torch.int64),
        reward=(10 * number + time).float(),
        terminated=flag,
        truncated=flag,
        is_reset=flag,
        w=number[:, None].float(),
        previous_action=torch.zeros(count, dtype=torch.int64),
        memory=torch.zeros(count, 0),
    )


def numbers(unroll: Unroll) -> list[int]:
    return unroll.w[:, 0].int().tolist()


def filled(capacity: int, counts: list[int]) -> ReplayBuffer[Unroll]:
    buffer, first = ReplayBuffer(capacity, unrolls(0, 1)), 0
    for count in counts:
        buffer.add(unrolls(first, count))
        first += count
    return buffer


@pytest.mark.parametrize("counts", [[2], [3, 3], [5], [4, 4, 4], [12]])
def test_it_keeps_the_newest_entries_in_order_of_arrival(counts: list[int]):
    buffer, total = filled(5, counts), sum(counts)
    kept = list(range(max(total - 5, 0), total))
    everything = buffer.all()
    assert len(buffer) == len(kept)
    assert numbers(everything) == kept
    assert everything.reward[2].int().tolist() == [10 * number + 2 for number in kept]
    assert everything.observation[3].tolist() == [10 * number + 3 for number in kept]


def test_every_entry_is_sampled_equally_often():
    buffer = filled(5, [4, 4])
    sampled = buffer.sample(20_000, torch.Generator().manual_seed(0))
    shares = torch.bincount(sampled.w[:, 0].long(), minlength=8) / 20_000
    assert shares.tolist() == pytest.approx([0, 0, 0, 0.2, 0.2, 0.2, 0.2, 0.2], abs=0.01)


def test_a_buffer_restored_from_its_pieces_samples_the_same_entries():
    buffer, again = ReplayBuffer(5, unrolls(0, 1)), ReplayBuffer(5, unrolls(0, 1))
    pieces = []
    for first, count in ((0, 2), (2, 4), (6, 3)):
        buffer.add(unrolls(first, count))
        pieces.append(buffer.new_piece())
    assert buffer.new_piece() == {}
    again.expect(9)
    assert again.num_missing == 5
    for piece in pieces:
        again.restore(piece)
    assert again.num_missing == 0
    assert again.new_piece() == {}
    one, other = (b.sample(50, torch.Generator().manual_seed(0)) for b in (buffer, again))
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_missing_piece_is_counted():
    buffer, again = filled(5, [2]), ReplayBuffer(5, unrolls(0, 1))
    again.expect(4)
    again.restore(buffer.new_piece())
    assert again.num_missing == 2


@pytest.mark.parametrize("name", ["reward", "w"])
def test_a_piece_with_another_shape_is_refused(name: str):
    piece = filled(5, [2]).new_piece()
    with pytest.raises(ValueError, match=f"its {name} has another shape or type"):
        ReplayBuffer(5, unrolls(0, 1)).restore({**piece, name: piece[name].double()})
    with pytest.raises(ValueError, match=r"equally long|another shape"):
        ReplayBuffer(5, unrolls(0, 1)).restore({**piece, name: piece[name][:1]})
