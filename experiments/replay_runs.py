"""What the replay learner's experiments share: pre-train or load a run, append rows to a table."""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

import visr
from visr import pretraining
from visr.config import RunConfig
from visr.envs.episodes import EpisodeSteps
from visr.inference import collect
from visr.inference.compare_methods import compare_methods


@contextmanager
def pretrained(config: RunConfig, kept: Path | None) -> Iterator[tuple[visr.Run, float]]:
    """A run and the CPU seconds of its training; in a directory that is removed unless it is `kept`."""
    with tempfile.TemporaryDirectory() as place:
        path = kept or Path(place) / "run"
        began = time.process_time()
        if not path.exists():
            pretraining.start(path, config)
        spent = time.process_time() - began
        torch.set_num_threads(1)
        yield visr.load(path), spent


def infer_env(
    run: visr.Run, num_steps: int, seed: int, on_step: Callable[[EpisodeSteps], None] | None = None
) -> visr.Task:
    """The task of the environment's own reward, from so many rewarded steps, by the method that fits best."""
    steps = collect.collect_rewarded(
        *(run.agent, run.config),
        num_episodes=10**6,
        num_steps=num_steps,
        seed=seed + 1,
        on_step=on_step,
    )
    compared = compare_methods(steps.clipped())
    fits = [name for name in compared.estimates if "search" not in name]
    best = max(fits, key=lambda name: compared.validations[name].r_squared)
    return run.task_of(compared, best, "env")


def append(table: Path, row: dict[str, object]) -> None:
    """Add a row to a CSV file, and show it."""
    print(row, flush=True)
    table.parent.mkdir(parents=True, exist_ok=True)
    is_new = not table.exists()
    with table.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def settings(words: list[str]) -> dict[str, object]:
    """Fields of a configuration from words name=value."""
    return {name: _value(text) for name, text in (word.split("=") for word in words)}


def _value(text: str) -> object:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
