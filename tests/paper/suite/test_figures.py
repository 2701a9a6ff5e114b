"""Figures: the numbers in them, their captions and their line styles."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paper.suite.made_up_runs import ATARI, MINATAR, STEPS, new_run, play
from visr import config as configuration
from visr.paper.suite import build, drawing, figures, pairwise
from visr.paper.suite.drawing import Drawing
from visr.paper.suite.entries import Suite
from visr.storage.run_dir import RunDir


def suite_of(root: Path) -> Suite:
    (suite,) = build.gather(root).suites
    return suite


def over_training(root: Path) -> Drawing:
    found = figures.over_training(suite_of(root))
    assert found is not None
    return found


def set_steps(run: RunDir, num_steps: int) -> None:
    run.write_config(configuration.replace(run.config(), num_steps=num_steps))


def test_runs_of_different_lengths_are_different_curves(atari: Path):
    longer = new_run(atari / "longer", "visr", ATARI[0], 0)
    play(longer, regression=1.0, random=0.0)
    set_steps(longer, 6000)
    suite = suite_of(atari)
    _, lines = figures.collect(suite, suite.runs)
    assert set(lines) == {"GPI VISR, 3k", "GPI VISR, 6k", "NSQ @10M"}


def test_figure_2a_shows_games_that_every_agent_played(minatar: Path):
    for seed in (0, 1):  # without GPI only the first game was played
        play(new_run(minatar, "visr-no-gpi", MINATAR[0], seed), regression=3.0, random=1.0)
    drawing = over_training(minatar)
    assert "Not every agent has Asterix: left out." in drawing.caption
    assert "(1 here)" in drawing.caption
    # a game that only one agent played does not change the medians
    ends = {row[0]: row[2] for row in drawing.rows}
    play(new_run(minatar, "visr", "MinAtar/Freeway-v1", 0), regression=99.0, random=1.0)
    play(new_run(minatar, "nsq-10m", "MinAtar/Freeway-v1", 0), trained=11.0, random=1.0)
    assert {row[0]: row[2] for row in over_training(minatar).rows} == ends


def test_figure_2a_shows_the_longest_training_of_an_agent(minatar: Path):
    before = over_training(minatar)
    short = new_run(minatar / "short", "visr", MINATAR[0], 0, num_steps=STEPS // 2)
    play(short, regression=99.0, random=1.0)
    assert over_training(minatar).rows == before.rows


def test_the_band_of_figure_2a_is_of_seeds_that_played_every_game(minatar: Path):
    play(new_run(minatar, "visr", MINATAR[0], 2), regression=60.0, random=1.0)
    *_, lowest, highest = over_training(minatar).rows[-1]
    assert lowest == highest  # seeds 0 and 1 score the same; seed 2 played one game of two


def test_figure_2a_shows_only_finished_runs(atari: Path):
    half = new_run(atari, "visr", "ALE/MsPacman-v5", 0)
    play(half, regression=9.0, random=0.0)
    set_steps(half, 10 * STEPS)
    drawing = over_training(atari)
    assert "(2 here)" in drawing.caption
    assert "left out" not in drawing.caption


def test_an_entry_with_fewer_games_says_so(minatar: Path):
    play(new_run(minatar, "visr-rnd", MINATAR[0], 0), regression=3.0, random=1.0)
    found = figures.intervals(suite_of(minatar))
    assert found is not None
    names = {str(row[0]) for row in found.rows}
    assert {name for name in names if "games" in name} == {"VISR + RND bonus @100k (1 of 2 games)"}


def test_profiles_show_only_entries_with_most_games(minatar: Path):
    play(new_run(minatar, "visr-rnd", MINATAR[0], 0), regression=3.0, random=1.0)
    found = figures.profiles(suite_of(minatar))
    assert found is not None
    assert {row[0] for row in found.rows} == {"GPI VISR @100k", "NSQ @10M", "Random @0"}


def test_figures_2b_and_2c_compare_game_by_game(atari: Path):
    suite = suite_of(atari)
    pairs, frames = pairwise.regression_or_search(suite), pairwise.frames_of_dqn(suite)
    assert pairs is not None
    assert frames is not None
    assert {row[0]: row[2] for row in pairs.rows}["Pong"] == pytest.approx(100 * 70.7 / 35.3)
    assert {row[0]: row[2] for row in frames.rows} == {"Pong": "never", "Alien": 1.0}


def test_our_own_dqn_runs_are_in_figure_2c(minatar: Path):
    for game in MINATAR:
        play(new_run(minatar, "dqn-10m", game, 0), trained=8.0, random=1.0)
        for seed in (0, 1, 2):  # shorter runs, which never reach the score, do not count
            play(new_run(minatar, "dqn-100k", game, seed), trained=2.0, random=1.0)
    found = pairwise.frames_of_dqn(suite_of(minatar))
    assert found is not None
    # the running mean (of 30 episodes, 5 a row) reaches 6 in the last row: 8 (.5 + ... + 1) / 6
    assert [row[-1] for row in found.rows] == [10.0, 10.0]


def test_learning_curves_average_over_thirty_episodes(tmp_path: Path):
    play(new_run(tmp_path, "visr", "CartPole-v1", 0), regression=200.0, random=20.0)
    found = figures.every_game(suite_of(tmp_path))
    assert found is not None
    assert found.rows[-1][-1] == 150  # 6 rows with 5 episodes each, from half of 200 to all of it


def test_line_styles_are_distinct_and_keep_the_family_s_colour():
    names = ["GPI VISR @100k", "VISR @100k", "GPI RF VISR @100k", "NSQ @100k", "NSQ @1M", "VISR+"]
    names += [f"VISR + {i}" for i in range(9)]
    styles = drawing.line_styles(names)
    assert len(set(styles.values())) == len(names)
    assert styles["NSQ @100k"].color == styles["NSQ @1M"].color
    assert styles["GPI VISR @100k"].color != styles["GPI RF VISR @100k"].color
