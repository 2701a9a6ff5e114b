"""The training loop, ready to be measured."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from visr.config import RunConfig
from visr.storage.run_dir import RunDir
from visr.training.loop import Loop, TrainingLoop
from visr.training.metrics import Recorder

_WARM_UP = 3
AnyLoop = TypeVar("AnyLoop", bound=TrainingLoop)


@contextlib.contextmanager
def warm(config: RunConfig) -> Iterator[tuple[Loop, Callable[[], int]]]:
    """The single-machine loop past its first rounds, and the job of one more round."""
    with warmed(Loop(config)) as both:
        yield both


@contextlib.contextmanager
def warmed(loop: AnyLoop) -> Iterator[tuple[AnyLoop, Callable[[], int]]]:
    """A loop past its first rounds, and the job of one more round, logging included: it returns the steps."""
    config = loop.config
    every = config.training.log_every
    with tempfile.TemporaryDirectory() as directory:
        recorder = Recorder(RunDir.create(Path(directory) / "run", config))
        rounds = loop.rounds()
        for _ in range(_WARM_UP):
            next(rounds)

        def train() -> int:
            before = loop.num_learned_steps
            current = next(rounds)
            recorder.add(current.metrics)
            now = loop.num_learned_steps
            if now // every > before // every:
                recorder.write(now, current.num_updates)
                recorder.write_vitals(now, loop.vitals())
            return now - before

        yield loop, train
        rounds.close()
        recorder.close()
