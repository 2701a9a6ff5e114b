"""Values that look right and are not, and objects that raise whatever is asked of them, in the Python API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from tests.robustness.bad_input.test_python import Broken
from visr import api
from visr.errors import UserError


@pytest.fixture(scope="module")
def run(trained: Path) -> api.Run:
    return api.load(trained)


@pytest.fixture(scope="module")
def task(run: api.Run) -> visr.Task:
    return run.skill(0)


class Nameless:
    """A callable object of a user without a name, a shape or anything else."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __call__(self) -> None: ...


ZEROS: Any = np.zeros(2, np.int64)
SECONDS: Any = np.timedelta64(3, "s")
CALLS: dict[str, Callable[[api.Run, visr.Task], Any]] = {
    "a seed of thousands of digits": lambda run, task: run.play(task, seed=10**5000),
    "a negative seed": lambda run, _: run.phase_two(seed=-1),
    "an epsilon of 1e400": lambda run, task: run.play(task, epsilon=10**400),
    "evaluate at epsilon 1e400": lambda run, task: run.evaluate_episodes(task, epsilon=10**400),
    "evaluate with seed -1e400": lambda run, task: run.evaluate_episodes(task, seed=-(10**400)),
    "evaluate 2^62 episodes": lambda run, task: run.evaluate_episodes(task, num_episodes=2**62),
    "play a name of 300 letters": lambda run, _: run.play("x" * 300),
    "a task of words": lambda run, _: run.task_of("x", "best", "x"),  # pyright: ignore
    "an agent of words": lambda run, _: run.agent_of("x"),  # pyright: ignore
    "a nameless reward": lambda run, _: run.infer(Nameless()),  # pyright: ignore
    "compare a nameless reward": lambda run, _: run.compare(Nameless()),  # pyright: ignore
    "pack scores of words": lambda run, _: visr.pack(run, "x", scores="x"),  # pyright: ignore
    "pack a recipe of words": lambda run, _: visr.pack(run, "x", recipe="x"),
    "pack a recipe of numbers": lambda run, _: visr.pack(run, "x", recipe=[3]),  # pyright: ignore
    "finetune at an array": lambda run, task: run.finetune(task, learning_rate=np.zeros(2)),
    "finetune at a broken number": lambda run, task: run.finetune(task, epsilon=Nameless()),
    "predict with a state of words": lambda run, task: run.policy(task).predict([0], "xy"),  # pyright: ignore
    "predict with a state of numbers": lambda run, task: run.policy(task).predict([0], 3),  # pyright: ignore
    "predict with two states": lambda run, task: run.policy(task).predict([0], (ZEROS, ZEROS)),
    "predict with another's memory": lambda run, task: run.policy(task).predict(
        [0], (np.zeros(1, np.int64), np.zeros((1, 7), np.float32))
    ),
    "predict with action 99": lambda run, task: run.policy(task).predict(
        [0], (np.full(1, 99), np.zeros((1, 0), np.float32))
    ),
    "predict with broken states": lambda run, task: run.policy(task).predict([0], Broken()),  # pyright: ignore
    "predict with two starts": lambda run, task: run.policy(task).predict([0], None, [True, False]),
    "predict with bytes as starts": lambda run, task: run.policy(task).predict(
        [0], None, bytearray(5)
    ),
    "act with two starts": lambda run, task: run.policy(task)([0], [True, False]),
    "skill of three seconds": lambda run, _: run.skill(SECONDS),
    "a number of seconds": lambda run, task: run.evaluate_task(task, seed=SECONDS),
    "mix seconds of a task": lambda run, task: visr.mix([(task, SECONDS)]),  # pyright: ignore
}


@pytest.mark.parametrize("name", CALLS)
def test_such_values_are_refused(name: str, run: api.Run, task: visr.Task):
    with pytest.raises(UserError) as refused:
        CALLS[name](run, task)
    sentence = str(refused.value)
    assert sentence.endswith((".", "?"))
    assert len(sentence) < 500


@pytest.mark.parametrize("factor", [SECONDS, np.complex64(1j), 1j, None], ids=repr)
def test_a_task_is_multiplied_by_numbers_only(factor: Any, task: visr.Task):
    for calculate in (lambda: task * factor, lambda: task / factor):
        with pytest.raises(TypeError, match="unsupported operand"):
            calculate()
