"""Where MinAtar's games are, as arrays: a run can stop in the middle of them and go on."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visr.errors import UserError

_SETTINGS = ("action_map", "channels", "ramping", "random")
"""What a game is told, or what its chance is drawn from; all else that it knows is where it is."""
_LARGEST = 10_000
"""Of any number a game keeps: cells and timers, the longest of them 2,500."""
_WORDS = 624
"""Of the Mersenne twister's state."""
_FAILURES = (
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
    *(NameError, RecursionError),  # a direction that its branches do not know; brackets without end
)
"""Of playing what no game would have come to."""


def taken(games: Sequence[Any]) -> dict[str, NDArray]:
    """Everything that decides the future of the games."""
    chances = [game.random.get_state() for game in games]
    known = json.dumps([_known(game) for game in games])
    return {
        "games": np.frombuffer(known.encode(), dtype=np.uint8),
        "random": np.stack([words for _, words, *_ in chances]).astype(np.int64),
        "drawn": np.array([place for _, _, place, *_ in chances], dtype=np.int64),
    }


def put_back(games: Sequence[Any], state: Mapping[str, NDArray]) -> None:
    """Go on exactly where `taken` was; the games have begun, and are changed only if all of it fits."""
    try:
        restored = [copy.deepcopy(game) for game in games]
        known = json.loads(state["games"].astype(np.uint8).tobytes())
        words, places = state["random"], state["drawn"]
        if words.dtype != np.int64 or places.dtype != np.int64:
            raise TypeError("its random numbers are none")
        if words.shape != (len(games), _WORDS) or places.shape != (len(games),):
            raise ValueError("it is of another number of games")
        if places.min() < 0 or places.max() > _WORDS or words.min() < 0 or words.max() >= 2**32:
            raise ValueError("its random numbers are none")
        for game, values, drawn, place in zip(restored, known, words, places, strict=True):
            _restore(game, values)
            game.env.random = game.random = np.random.RandomState()
            game.random.set_state(("MT19937", drawn.astype(np.uint32), int(place), 0, 0.0))
            _try_out(game)
    except _FAILURES as error:
        raise UserError(
            f"The saved games are damaged ({error}); go on from an older checkpoint, or begin anew."
        ) from None
    for game, better in zip(games, restored, strict=True):
        vars(game).update(vars(better))


def _known(game: Any) -> dict[str, Any]:
    known = {k: _plain(v) for k, v in vars(game.env).items() if k not in _SETTINGS}
    return {**known, "last_action": int(game.last_action)}


def _plain(value: Any) -> Any:
    """As JSON has it: games keep numbers, maps, and lists of things that are lists of numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _restore(game: Any, values: dict[str, Any]) -> None:
    mine = _known(game)
    if values.keys() != mine.keys():
        raise ValueError("it is of another game")
    for name, value in values.items():
        _refuse_wild(name, value)
        if isinstance(mine[name], list) != isinstance(value, list):
            raise ValueError(f"its {name} is no {name}")
        if name == "last_action":
            if value not in range(game.num_actions()):
                raise ValueError("its last_action is no action")
            game.last_action = value
        elif isinstance(known := getattr(game.env, name), np.ndarray):
            array = np.array(value, dtype=known.dtype)
            if array.shape != known.shape:
                raise ValueError(f"its {name} has another shape")
            setattr(game.env, name, array)
        else:
            setattr(game.env, name, value)


def _refuse_wild(name: str, value: Any, depth: int = 0) -> None:
    if isinstance(value, list) and depth < 2 and len(value) <= _LARGEST:
        for item in value:
            _refuse_wild(name, item, depth + 1)
    elif value is None and depth == 1:  # a place that nothing stands in
        return
    elif not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ValueError(f"its {name} is no {name}")


def _try_out(game: Any) -> None:
    """What cannot be drawn or played would fail many steps later."""
    trial = copy.deepcopy(game)
    for action in range(trial.num_actions()):
        trial.state()
        trial.act(action)
