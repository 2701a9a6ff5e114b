"""Stacked frames, each kept once: what comes back is what was added, from memory and from files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from visr.errors import UserError
from visr.storage.files import read_tensors, write_tensors
from visr.storage.frame_store import FIELD, FrameStore, StackedRows

LENGTH, STACK, SIDE = 6, 4, 3


def unrolls(count: int, num_rounds: int, seed: int = 0) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Rounds of unrolls [T + 1, n, k, H, W] of environments that reset at random, as ALE stacks frames."""
    rng = np.random.default_rng(seed)

    def frame() -> np.ndarray:
        return rng.integers(1, 256, (SIDE, SIDE)).astype(np.uint8)

    def started() -> np.ndarray:
        return np.stack([np.zeros((SIDE, SIDE), np.uint8)] * (STACK - 1) + [frame()])

    now, rounds = [started() for _ in range(count)], []
    for _ in range(num_rounds):
        resets = rng.random((LENGTH, count)) < 0.2
        seen = [np.stack(now)]
        for is_new in resets:
            now = [
                started() if new else np.concatenate([x[1:], frame()[None]])
                for x, new in zip(now, is_new, strict=True)
            ]
            seen.append(np.stack(now))
        rounds.append((torch.from_numpy(np.stack(seen)), torch.from_numpy(resets)))
    return rounds


def all_of(store: FrameStore, first: int, count: int) -> torch.Tensor:
    """[T + 1, count, k, H, W], the unrolls from this number on."""
    time, number = torch.meshgrid(
        torch.arange(LENGTH + 1), torch.arange(first, first + count), indexing="ij"
    )
    return store.stacks(time.flatten(), number.flatten()).unflatten(0, time.shape)


def test_stacks_come_back_as_they_were():
    store, rounds = FrameStore(STACK), unrolls(5, 4)
    for observation, is_reset in rounds:
        store.add(observation, is_reset)
    whole = torch.cat([observation for observation, _ in rounds], dim=1)
    assert torch.equal(all_of(store, 0, 20), whole)
    rows = StackedRows(store, LENGTH, 20)
    assert len(rows) == 20 * (LENGTH + 1)
    chosen = torch.tensor([3 * (LENGTH + 1) + 2, 0])  # unroll 3 at time 2, unroll 0 at time 0
    assert torch.equal(rows[chosen], whole[[2, 0], [3, 0]])


def test_each_frame_is_kept_once():
    store, (round_, *_) = FrameStore(STACK), unrolls(5, 1)
    store.add(*round_)
    assert store.new_frames(0).numel() == 5 * (LENGTH + STACK) * SIDE**2
    assert round_[0].numel() == 5 * (LENGTH + 1) * STACK * SIDE**2


def test_the_oldest_are_forgotten_and_numbers_stay():
    store, rounds = FrameStore(STACK), unrolls(5, 3)
    for observation, is_reset in rounds:
        store.add(observation, is_reset)
    store.forget(7)  # unroll 7 is in the second round, so that only the first goes
    kept = torch.cat([observation for observation, _ in rounds[1:]], dim=1)
    assert torch.equal(all_of(store, 5, 10), kept)
    assert store.new_frames(7).shape[1] == 8
    with pytest.raises(IndexError):
        all_of(store, 0, 1)


@pytest.mark.parametrize("first", [0, 2])
def test_a_file_replaces_memory(first: int, tmp_path: Path):
    store, rounds = FrameStore(STACK), unrolls(5, 3)
    for observation, is_reset in rounds:
        store.add(observation, is_reset)
    path = tmp_path / "piece.safetensors"
    write_tensors(path, safetensors.torch.save({FIELD: store.new_frames(first)}))
    store.replace_newest(read_tensors(path, "", mapped=FIELD)[FIELD].numpy())
    whole = torch.cat([observation for observation, _ in rounds], dim=1)
    assert torch.equal(all_of(store, first, 15 - first), whole[:, first:])
    store.add(*unrolls(5, 1, seed=1)[0])
    assert torch.equal(all_of(store, 15, 5), unrolls(5, 1, seed=1)[0][0])


def test_other_images_are_refused():
    observation, is_reset = unrolls(5, 1)[0]
    changed = observation.clone()
    changed[3, 0, 0] += 1
    with pytest.raises(ValueError, match="stacks of successive frames"):
        FrameStore(STACK).add(changed, is_reset)
    frames = torch.zeros(LENGTH + STACK + 1, 5, SIDE, SIDE, dtype=torch.uint8)
    with pytest.raises(ValueError, match="do not fit its steps"):
        FrameStore(STACK).add_piece({FIELD: frames, "is_reset": is_reset})


def test_files_of_older_versions_have_whole_stacks():
    store, ((observation, is_reset), (later, later_reset)) = FrameStore(STACK), unrolls(5, 2)
    store.add_piece({"observation": observation, "is_reset": is_reset})
    newer = FrameStore(STACK)
    newer.add(later, later_reset)
    store.add_piece({FIELD: newer.new_frames(0), "is_reset": later_reset})
    assert torch.equal(all_of(store, 0, 10), torch.cat([observation, later], dim=1))


def test_a_damaged_file_is_refused(tmp_path: Path):
    path = tmp_path / "piece.safetensors"
    write_tensors(path, safetensors.torch.save({FIELD: torch.arange(100, dtype=torch.uint8)}))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\0")
    with pytest.raises(UserError, match="checksum"):
        read_tensors(path, "restore it", mapped=FIELD)
