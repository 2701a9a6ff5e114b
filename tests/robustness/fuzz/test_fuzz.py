"""A few thousand odd inputs for every place where text comes in; `make fuzz` feeds 200,000."""

from __future__ import annotations

import mmap
import random
import shutil
from pathlib import Path

import pytest

from tests.robustness.fuzz import files, noise, run, targets
from tests.robustness.fuzz.guided import Choices
from tests.robustness.fuzz.run import Fault
from visr.errors import UserError


@pytest.mark.parametrize("seed", [1, 2])
def test_every_input_gives_a_result_or_one_sentence(seed: int, trained: Path, tmp_path: Path):
    shutil.copytree(trained, tmp_path / "run")
    for tally in run.feed_all(2_000, seed, tmp_path, tmp_path / "run"):
        if tally.inputs >= 50:  # the noise is neither all nonsense nor all fine
            assert 0 < tally.refused < tally.inputs, tally


def refuses(given: str) -> int:
    raise UserError(given)


def fails(given: str) -> int:
    raise KeyError(given)


def hangs(_: str) -> int:
    while True:
        pass


@pytest.mark.parametrize("feed", [refuses, fails, hangs])
def test_the_fuzzer_reports_a_fault_with_its_input(feed: object, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "MOST_SECONDS", 0.05)
    target = targets.Target("odd", 1.0, lambda _: "what was given", feed)  # pyright: ignore
    with pytest.raises(Fault, match="odd, seed 3, call 0: 'what was given'"):
        run._feed(target, 1, 3)


def test_the_fuzzer_notices_growing_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "MOST_GROWTH", 8.0)
    kept: list[mmap.mmap] = []

    def keep(_: str) -> int:
        kept.append(mmap.mmap(-1, 2**22))  # not the allocator's, which may still have some
        kept[-1].write(b"x" * 2**22)
        return 0

    with pytest.raises(Fault, match="memory grew"):
        run._feed(targets.Target("greedy", 1.0, lambda _: "", keep), 40, 0)


def test_the_same_seed_makes_the_same_inputs():
    def made(seed: int) -> list[bytes]:
        source = random.Random(seed)
        return [noise.document(source, files.TASK) for _ in range(20)]

    assert made(5) == made(5)
    assert made(5) != made(6)


def test_choices_follow_from_bytes_and_end_in_zeros():
    first, same = (Choices(b"\x07\x80abcdefgh") for _ in range(2))
    assert [first.randrange(12) for _ in range(3)] == [same.randrange(12) for _ in range(3)]
    empty = Choices(b"")
    assert (empty.randrange(12), empty.random(), empty.choice("abc")) == (0, 0.0, "a")
    assert noise.document(empty, files.TASK) == noise.document(Choices(b""), files.TASK)
