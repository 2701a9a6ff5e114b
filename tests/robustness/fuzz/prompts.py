"""What a user asks for: goals as text, preferences as JSON, demonstrations as .npz files."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import Any

import numpy as np

import visr
from tests.robustness.fuzz import noise
from visr.errors import UserError

_GOALS = ("2,3", "7", "x0=3", "step:12", "row=1,col=2", "state.npy", "goal:1,1")
_PAIRS: dict[str, Any] = {
    "pairs": [
        {"better": [1, 2, 3], "worse": [3, 4, 5]},
        {"better": [5, 6, 7], "worse": [7, 8, 9, 10]},
    ]
}


def goal(random: random.Random) -> str:
    """A goal, with characters changed."""
    return noise.characters(random, random.choice(_GOALS))


def preferences(random: random.Random) -> bytes:
    """A file of preferences."""
    return noise.document(random, _PAIRS)


def demonstration(random: random.Random) -> bytes:
    """An .npz file of states of a grid, perhaps with actions."""
    count = random.choice((0, 1, 2, 5))
    highest = random.choice((5, 49, 10**6))
    arrays = {"observations": np.array([random.randrange(highest) for _ in range(count)])}
    if random.randrange(2):
        arrays["actions"] = np.array([random.randrange(5) for _ in range(max(count - 1, 0))])
    if random.randrange(4) == 0:
        arrays["observations"] = arrays["observations"].astype(random.choice(("f4", "U2", "?")))
    file = io.BytesIO()
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    return noise.bitten(random, file.getvalue()) if random.randrange(4) == 0 else file.getvalue()


class Asker:
    """Infers tasks of one run from prompts."""

    def __init__(self, run: Path) -> None:
        self._run = visr.load(run)
        self.goal("step:0")  # the first goal of this kind records steps, which takes seconds

    def goal(self, text: str) -> int:
        try:
            task = self._run.infer(goal=text)
        except UserError:
            return 1
        assert abs(np.linalg.norm(task.w) - 1) < 1e-5
        return 0

    def preferences(self, place: Path, content: bytes) -> None:
        path = place / "preferences.json"
        path.write_bytes(content)
        task = self._run.infer(preferences=path)
        assert abs(np.linalg.norm(task.w) - 1) < 1e-5

    def demonstration(self, place: Path, content: bytes) -> None:
        path = place / "demonstration.npz"
        path.write_bytes(content)
        task = self._run.infer(demonstration=path)
        assert abs(np.linalg.norm(task.w) - 1) < 1e-5
