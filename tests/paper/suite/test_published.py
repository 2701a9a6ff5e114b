"""Published figures, and what our own arithmetic makes of them."""

from __future__ import annotations

import csv
import dataclasses
import io
from importlib import resources

import numpy as np
import pytest

from visr import atari_games
from visr.paper.suite import published, statistics
from visr.paper.suite.statistics import Aggregate


def aggregated(algorithm: str, subset: str) -> Aggregate:
    (scores,) = [s for s in published.scores() if s.algorithm == algorithm]
    (chosen,) = [s for s in atari_games.subsets() if s.key == subset]
    return statistics.aggregate({g: {0: x} for g, x in scores.normalised(chosen).items()})


def test_subsets_have_as_many_games_as_their_names_say():
    assert [len(subset.games) for subset in atari_games.subsets()] == [26, 47, 57]


def test_the_47_games_are_called_a_reconstruction():
    (subset,) = [s for s in atari_games.subsets() if s.key == "47_burda"]
    assert "reconstruct" in subset.title
    assert "reconstruction" in subset.note


def test_simple_on_26_games():
    found = aggregated("SimPLe", "26_kaiser")
    assert (round(found.mean, 2), round(found.median, 2)) == (33.20, 13.41)


def test_simple_s_better_column_on_26_games():
    found = aggregated("SimPLe best of two", "26_kaiser")
    assert (round(found.mean, 2), round(found.median, 2)) == (44.27, 14.36)
    assert found.num_at_75 == 5


def test_dopamine_s_dqn_at_10m_frames():
    assert round(aggregated("DQN (Dopamine)", "26_kaiser").median, 2) == 28.14
    full = aggregated("DQN (Dopamine)", "57_full")
    assert (full.num_games, round(full.mean, 2)) == (55, 24.61)


def test_the_paper_s_51_rows_print_as_they_were_read():
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(published.PaperRow)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(dataclasses.asdict(row) for row in published.paper_table())
    file = resources.files("visr").joinpath("data", "paper_table.csv")
    assert len(published.paper_table()) == 51
    assert text.getvalue() == file.read_text(encoding="utf-8")


def test_every_published_game_is_one_of_the_57():
    known = {game.name for game in atari_games.all_games()}
    assert all(set(s.by_game) <= known for s in published.scores())
    assert set(published.dqn_curves()) == known - {"defender", "surround"}


def test_curves_agree_with_the_scores_at_10m_frames():
    (dqn,) = [s for s in published.scores() if s.algorithm == "DQN (Dopamine)"]
    for game, curve in published.dqn_curves().items():
        assert curve[9] == pytest.approx(dqn.by_game[game], rel=1e-3)


def test_frames_to_match_count_from_the_first_million():
    curve = np.array([1.0, 5.0, 3.0, 9.0])
    assert published.frames_to_match(curve, 0.5) == 1
    assert published.frames_to_match(curve, 4.0) == 2
    assert published.frames_to_match(curve, 6.0) == 4
    assert published.frames_to_match(curve, 10.0) == np.inf
