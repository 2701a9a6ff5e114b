"""The 57 Atari games, and the published scores of a random player and of a human."""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True)
class Game:
    """One row of `data/atari57.csv`."""

    name: str
    """The ROM's name, such as `up_n_down`."""
    id: str
    """The environment's id, such as `ALE/UpNDown-v5`."""
    random: float
    """Score of a random player."""
    human: float
    """Score of a human."""
    in_26: bool
    """One of the 26 games of Kaiser et al. (2019)."""
    in_47: bool
    """One of the 47 games shared with Burda et al. (2018): a reconstruction."""
    num_actions: int
    """Size of the game's minimal action set."""


def read_data(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file in `visr/data`; its README.md names their sources."""
    text = resources.files("visr").joinpath("data", name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@functools.cache
def all_games() -> tuple[Game, ...]:
    """All 57, by name."""
    return tuple(
        Game(
            name=row["game"],
            id=row["id"],
            random=float(row["random"]),
            human=float(row["human"]),
            in_26=row["in_26_kaiser"] == "1",
            in_47=row["in_47_burda"] == "1",
            num_actions=int(row["minimal_actions"]),
        )
        for row in read_data("atari57.csv")
    )


@dataclass(frozen=True)
class GameSet:
    """Games that a table aggregates together."""

    key: str
    """As in `data/paper_table.csv`."""
    title: str
    games: tuple[str, ...]
    """Environment ids."""
    note: str = ""


@functools.cache
def game_sets() -> tuple[GameSet, ...]:
    """The paper's three sets of games, in its order."""
    every = all_games()
    note = (
        "The list of 47 games was never published; this one is a reconstruction: the 49 games of "
        "Mnih et al. (2015) without Hero and Video Pinball."
    )
    return (
        GameSet("26_kaiser", "26 games", tuple(g.id for g in every if g.in_26)),
        GameSet(
            "47_burda", "47 games (reconstructed)", tuple(g.id for g in every if g.in_47), note
        ),
        GameSet("57_full", "57 games", tuple(game.id for game in every)),
    )


def by_id(id: str) -> Game | None:
    """The game of that id, if it is one of the 57."""
    return next((game for game in all_games() if game.id == id), None)


def human_normalised(score: float, game: Game) -> float:
    """100 (score - random) / (human - random): 0 is a random player, 100 a human."""
    return 100.0 * ((score - game.random) / (game.human - game.random))
