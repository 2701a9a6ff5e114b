"""Every place where text or a file from outside comes in; a UserError is an answer, all else is a fault."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.robustness.fuzz import files, noise, prompts, tensors
from tests.robustness.fuzz.terminal import Terminal
from tests.robustness.fuzz.websocket import MESSAGES, Live
from visr.errors import UserError
from visr.inference import expression


class Target(NamedTuple):
    """A place where input comes in."""

    name: str
    share: float
    """Of all inputs, in relation to the others."""
    make: Callable[[random.Random], Any]
    feed: Callable[[Any], int]
    """How many of them were refused with a sentence; any other exception is a fault."""
    at_once: int = 1
    """Inputs that one call of `make` makes."""
    can_be_guided: bool = True
    """False where networks run: the guided inputs of a target are fed in a fork."""


def all_targets(place: Path, run: Path) -> list[Target]:
    """Files are written into `place`; prompts and the explorer use `run`, a run on the grid."""
    read = [
        Target(reader.name, reader.share, reader.make, _answered(reader.load, place))
        for reader in (*files.readers(), *tensors.readers())
    ]
    asked = prompts.Asker(run)
    live, terminal = Live(run), Terminal(run, place)
    return [
        Target("expression", 8, _expression, _evaluate),
        *read,
        Target("goal", 1, prompts.goal, asked.goal, can_be_guided=False),
        Target(
            "preferences", 2, prompts.preferences, _answered(asked.preferences, place), 1, False
        ),
        Target(
            "demonstration",
            1,
            prompts.demonstration,
            _answered(asked.demonstration, place),
            1,
            False,
        ),
        Target("terminal", 1, terminal.make, terminal.feed, 1, False),
        Target("websocket", 2, live.make, live.feed, MESSAGES, False),
    ]


def _answered(load: Callable[[Path, Any], None], place: Path) -> Callable[[Any], int]:
    def feed(given: Any) -> int:
        try:
            load(place, given)
        except UserError as error:
            return _is_sentence(error)
        return 0

    return feed


def _is_sentence(error: UserError) -> int:
    assert "Traceback" not in str(error)
    return 1


# ----------------------------------------------------------------------------------- expressions

_ROW, _COL = np.divmod(np.arange(100), 10)
_NAMES = {"row": _ROW, "col": _COL, "height": np.array(10), "width": np.array(10)}


def _expression(random: random.Random) -> str:
    text = noise.expression(random, random.randrange(1, 6))
    return noise.characters(random, text) if random.randrange(3) == 0 else text


def _evaluate(text: str) -> int:
    try:
        values = expression.evaluate(text, _NAMES)
    except UserError as error:
        sentence = str(error)
    else:
        assert values.shape == (100,)
        assert np.isfinite(values).all()
        return 0
    assert "\n" not in sentence
    assert len(sentence) < 600
    return 1
