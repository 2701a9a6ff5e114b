"""Films of recorded steps are drawn by the environment, from the same seed and actions."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from tests.explorer.launching import untrained
from visr import api, config
from visr.config import presets
from visr.play.segment_films import SegmentFilms


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> SegmentFilms:
    settings = config.replace(presets.for_environment("CartPole-v1", "visr"), env="CartPole-v1")
    run = api.load(untrained(tmp_path_factory.mktemp("cart") / "run", settings))
    return SegmentFilms(run.visr, run.config)


def test_a_film_shows_the_recorded_states(films: SegmentFilms):
    start = int(np.flatnonzero(np.diff(films.recorded.episode) > 0)[2]) + 1 + 4  # fifth step of one
    film = films.film(start, 3)
    screen = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    screen.reset(seed=0)
    states = [*films.recorded.before[start : start + 3], films.recorded.reached[start + 2]]
    for state, picture in zip(states, film, strict=True):
        screen.unwrapped.state = tuple(state)  # pyright: ignore
        np.testing.assert_array_equal(picture, screen.render())


def test_every_episode_can_be_drawn_from_its_start(films: SegmentFilms):
    episode = films.recorded.episode
    assert len(np.unique(episode)) == 64
    for number in (0, 31, 63):
        first = int(np.searchsorted(episode, number))
        assert len(films.film(first, int((episode == number).sum()))) > 1
