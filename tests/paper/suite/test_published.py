"""Published numbers: the paper's table, the sets of games and DQN's curves."""

from __future__ import annotations

import csv
import dataclasses
import io
from importlib import resources
from pathlib import Path

import numpy as np
import pytest

from visr import atari_games
from visr.paper.suite import published, statistics


def test_game_sets_have_as_many_games_as_their_names_say():
    assert [len(games.games) for games in atari_games.game_sets()] == [26, 47, 57]


def test_the_47_games_are_called_a_reconstruction():
    (games,) = [g for g in atari_games.game_sets() if g.key == "47_burda"]
    assert "reconstruct" in games.title
    assert "reconstruction" in games.note


@pytest.mark.parametrize(
    ("algorithm", "game_set", "num_games", "mean", "median"),
    [
        ("SimPLe", "26_kaiser", 26, 33.20, 13.41),
        ("SimPLe best of two", "26_kaiser", 26, 44.27, 14.36),
        ("DQN (Dopamine)", "26_kaiser", 26, None, 28.14),
        ("DQN (Dopamine)", "57_full", 55, 24.61, None),
    ],
)
def test_published_scores_of_games_give_the_published_aggregates(
    algorithm: str, game_set: str, num_games: int, mean: float | None, median: float | None
):
    with open(Path(__file__).with_name("published_scores.csv"), encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["algorithm"] == algorithm]
    scores = {row["game"]: float(row["score"]) for row in rows}
    (chosen,) = [games for games in atari_games.game_sets() if games.key == game_set]
    games = [g for g in atari_games.all_games() if g.id in chosen.games and g.name in scores]
    found = statistics.aggregate(
        {g.name: {0: atari_games.human_normalised(scores[g.name], g)} for g in games}
    )
    assert found.num_games == num_games
    assert mean is None or found.mean == pytest.approx(mean, abs=0.005)
    assert median is None or found.median == pytest.approx(median, abs=0.005)


def test_the_paper_s_51_rows_print_as_they_were_read():
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(published.PaperRow)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(dataclasses.asdict(row) for row in published.paper_table())
    file = resources.files("visr").joinpath("data", "paper_table.csv")
    assert len(published.paper_table()) == 51
    assert text.getvalue() == file.read_text(encoding="utf-8")


def test_every_game_but_two_has_a_dqn_curve():
    known = {game.name for game in atari_games.all_games()}
    assert set(published.dqn_curves()) == known - {"defender", "surround"}


def test_frames_to_match_count_from_the_first_million():
    curve = np.array([1.0, 5.0, 3.0, 9.0])
    assert published.frames_to_match(curve, 0.5) == 1
    assert published.frames_to_match(curve, 4.0) == 2
    assert published.frames_to_match(curve, 6.0) == 4
    assert published.frames_to_match(curve, 10.0) == np.inf
