"""visr list: environments, presets, rewards and models."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from visr import atari_games, terminal
from visr.commands import options, output
from visr.config import GRID, MINIGRID

_REWARDS = [
    ("env", "the environment's own reward, collected for 50 episodes or 100,000 steps"),
    ("boxes:SEED", "two 4x4 boxes of +1 at random places, as in the authors' notebook"),
    ("goal:ROW,COL", "one cell of +1"),
    ("FILE.npy, FILE.csv", "any array over the cells"),
    ('"row > 5 and col < 3"', "any expression over row, col, height and width"),
]

_SMALL_ENVS = {
    GRID: "the paper's grid world: any size, open or four rooms, exact optimal values",
    "CartPole-v1": "Gymnasium's pole on a cart: 4 numbers, 2 actions",
    "Acrobot-v1": "Gymnasium's two-link pendulum: 6 numbers, 3 actions",
    "MountainCar-v0": "Gymnasium's car in a valley: 2 numbers, 3 actions",
    "CliffWalking-v1": "Gymnasium's cliff: 48 states, 4 actions",
    "FrozenLake-v1": "Gymnasium's slippery lake: 16 states, 4 actions",
    "FrozenLake8x8-v1": "Gymnasium's larger slippery lake: 64 states, 4 actions",
    "Taxi-v4": "Gymnasium's taxi: 500 states, 6 actions",
}

_MINIGRIDS = {
    "FourRooms": "1,040 states, four rooms and a goal",
    "DoorKey-5x5": "270 states, a locked door and its key",
    "DoorKey-6x6": "1,294 states, a locked door and its key",
    "Empty-8x8": "142 states, an empty room",
    "SimpleCrossingS9N1": "170 states, a wall with a gap",
    "LavaGapS5": "20 states, lava with a gap",
    "MultiRoom-N2-S4": "64 states, two rooms and a door",
}


@dataclass(frozen=True)
class Options:
    """List what can be chosen."""

    what: Annotated[Literal["envs", "presets", "rewards", "models"], tyro.conf.Positional]
    """Which list."""
    json: bool = False
    """Print the list as one JSON object."""


def run(args: list[str]) -> int:
    """Print one list."""
    chosen = options.parse(Options, args, "list")
    entries = _entries(chosen.what)
    if chosen.json:
        output.emit({chosen.what: dict(entries)})
    else:
        width = max((len(name) for name, _ in entries), default=0)
        terminal.show_lines("\n".join(f"{name:<{width}}  {text}" for name, text in entries))
    return 0


def _entries(what: str) -> list[tuple[str, str]]:
    if what == "envs":
        return listed_envs()
    if what == "presets":
        from visr.config import presets

        return [(name, text) for name, (text, _) in presets.PRESETS.items()]
    if what == "models":
        from visr.storage import packed_models

        return [
            (name, packed_models.open_model(name).card.about)
            for name in (f"{packed_models.PREFIX}{name}" for name in packed_models.names())
        ]
    return _REWARDS


def listed_envs() -> list[tuple[str, str]]:
    """(id, description) of the environments that are known to work."""
    import gymnasium

    from visr.envs import minatar

    small = [(id, text) for id, text in _SMALL_ENVS.items() if id in gymnasium.registry]
    missing = "" if importlib.util.find_spec("minatar") else "; needs visr[minatar]"
    planes = [(id, f"MinAtar: 10 x 10 planes of objects{missing}") for id in minatar.GAMES]
    missing = "" if importlib.util.find_spec("minigrid") else "; needs visr[minigrid]"
    rooms = [
        (f"{MINIGRID}{task}-v0", f"MiniGrid with numbered states: {text}{missing}")
        for task, text in _MINIGRIDS.items()
    ]
    missing = "" if importlib.util.find_spec("ale_py") else "; needs visr[atari]"
    atari = [
        (
            game.id,
            f"Atari, {game.num_actions} actions: a random player scores {game.random:,g}, "
            f"a human {game.human:,g}{missing}",
        )
        for game in atari_games.all_games()
    ]
    return [*small, *rooms, *planes, *atari]
