"""Sessions: stepwise play, with pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from visr import api, envs
from visr import config as configuration
from visr.config import presets
from visr.play import rendering
from visr.play.session import Session, play


@pytest.fixture(scope="module")
def run(trained: Path) -> api.Run:
    return api.load(trained)


def test_a_video_shows_every_step_of_a_session(
    run: api.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    frames: list[rendering.Picture] = []
    monkeypatch.setattr(rendering.Mp4Writer, "add", lambda _, picture: frames.append(picture))
    task = run.skill(3)
    path = tmp_path / "video.mp4"
    episodes = play(run.agent, run.config, task, video=path, epsilon=0.2, seed=5, max_steps=30)
    screen = rendering.screen(run.config)
    session = Session(run.agent, run.config, screen=screen, epsilon=0.2, seed=5)
    session.actor.pursue(task.w)
    session.begin(5)
    for frame in frames:
        assert session.picture is not None
        picture = rendering.enlarged(session.picture, screen.scale)
        np.testing.assert_array_equal(frame[: len(picture)], picture)  # the caption is below
        session.step()
    assert [episode.num_steps for episode in episodes] == [len(frames) - 1] == [30]


def test_the_rendered_copy_plays_the_same_episode():
    config = configuration.replace(
        presets.for_environment("CartPole-v1", "visr"), env="CartPole-v1"
    )
    env, twin = envs.make_vec(config, 1), rendering.RenderedGym(config)
    observation, _ = env.reset(seed=7)
    twin.reset(observation, 7)
    for _ in range(5):
        action = np.array([1])
        observation = env.step(action)[0]
        twin.step(observation, action)
        np.testing.assert_allclose(twin._copy.unwrapped.state, observation[0], rtol=1e-5)  # pyright: ignore
    env.close()
    twin.close()


def test_values_and_features_are_those_of_the_agent(run: api.Run):
    session = Session(run.agent, run.config, epsilon=0.0, gpi=False)
    w = run.skill(1).w
    session.actor.pursue(w)
    session.begin(0)
    before = int(session.observation[0])
    session.step()
    q = run.successor_features([before], w)[0] @ w
    assert session.values is not None
    np.testing.assert_allclose(session.values, q, rtol=1e-4)
    assert session.action == q.argmax()
    np.testing.assert_allclose(session.features(), run.features(session.observation)[0], rtol=1e-5)


def test_an_episode_says_that_it_is_over(run: api.Run):
    session = Session(run.agent, run.config, epsilon=1.0)
    session.actor.pursue(run.skill(0).w)
    session.begin(0)
    while not session.is_over:
        session.step()
    assert session.num_steps == run.config.grid.max_episode_steps
    session.begin(1)
    assert (session.num_steps, session.is_over, session.action) == (0, False, None)


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ("visr/Grid-v0", ["up", "left", "down", "right"]),
        ("MinAtar/Breakout-v1", ["no-op", "left", "right"]),
        ("ALE/Pong-v5", ["no-op", "fire", "right", "left", "right fire", "left fire"]),
        ("CartPole-v1", ["left", "right"]),
        ("Acrobot-v1", ["0", "1", "2"]),
    ],
)
def test_actions_have_names_that_people_use(env: str, names: list[str], tiny):
    pytest.importorskip({"Mi": "minatar", "AL": "ale_py"}.get(env[:2], "gymnasium"))
    config = tiny() if env.startswith("visr") else api.presets.for_environment(env, "visr")
    config = api.configuration.replace(config, env=env)
    assert envs.space_codec(config).action_names == names


@pytest.mark.parametrize(("limit", "steps"), [(0, 100), (130, 130)])
def test_an_episode_of_a_grid_without_a_time_limit_is_cut(limit: int, steps: int, run: api.Run):
    config = configuration.replace(run.config, max_episode_steps=limit)
    (episode,) = play(run.agent, config, run.skill(0))
    assert episode.num_steps == steps
