"""visr list: environments, presets, rewards and models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from visr import terminal
from visr.commands import options, output

_REWARDS = [
    ("env", "the environment's own reward, collected for 50 episodes or 100,000 steps"),
    ("boxes:SEED", "two 4x4 boxes of +1 at random places, as in the authors' notebook"),
    ("goal:ROW,COL", "one cell of +1"),
    ("FILE.npy, FILE.csv", "any array over the cells"),
    ('"row > 5 and col < 3"', "any expression over row, col, height and width"),
]


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
        from visr import envs

        return envs.list_envs()
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
