"""MinAtar's games: what the reference implementation does, many copies of it, and our own rules."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from visr import envs
from visr.config import MinAtarConfig, RunConfig
from visr.envs.minatar import GAMES, MinAtarGames
from visr.errors import UserError

minatar = pytest.importorskip("minatar")

BREAKOUT = "MinAtar/Breakout-v1"
SHAPES = {"asterix": (4, 5), "breakout": (4, 3), "freeway": (7, 3), "seaquest": (10, 6)} | {
    "space_invaders": (6, 4)
}
"""game -> (planes, minimal actions)"""


class Moment(NamedTuple):
    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, Any]


def games(num_envs: int = 1, id: str = BREAKOUT, **settings: Any) -> MinAtarGames:
    return MinAtarGames(MinAtarConfig(**settings), id, num_envs)


def play(env: MinAtarGames, num_steps: int, seed: int = 0) -> list[Moment]:
    """The first observation as a moment of its own, then random steps."""
    observation, info = env.reset(seed=seed)
    none = np.zeros(env.num_envs, dtype=np.bool_)
    moments = [Moment(observation, none.astype(np.float32), none, none, info)]
    count = env.single_action_space.n  # pyright: ignore
    for actions in np.random.default_rng(seed).integers(0, count, (num_steps, env.num_envs)):
        moments.append(Moment(*env.step(actions)))
    return moments


def equal(some: list[Moment], others: list[Moment]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(np.array_equal(x, y) for a, b in pairs for x, y in zip(a[:4], b[:4], strict=True))


@pytest.mark.parametrize("id", GAMES)
def test_every_game_shows_the_planes_of_the_reference_and_its_minimal_actions(id: str):
    env = envs.make_vec(RunConfig(env=id), 2)
    assert isinstance(env, MinAtarGames)
    planes, num_actions = SHAPES[GAMES[id]]
    assert env.single_observation_space == gymnasium.spaces.Box(0, 1, (planes, 10, 10), np.uint8)
    assert env.observation_space.shape == (2, planes, 10, 10)
    assert env.single_action_space == gymnasium.spaces.Discrete(num_actions)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    for moment in play(env, 60):
        assert moment.observation in env.observation_space
        assert moment.observation.dtype == np.uint8
        assert set(np.unique(moment.observation)) == {0, 1}
        assert [a.dtype.name for a in moment[1:4]] == ["float32", "bool", "bool"]
        assert [a.shape for a in moment[1:4]] == [(2,)] * 3


@pytest.mark.parametrize("id", GAMES)
def test_a_game_is_the_reference_game_stepped_by_hand(id: str):
    env, seed = games(2, id), 7
    moments = play(env, 150, seed)
    count = env.single_action_space.n  # pyright: ignore
    actions = np.random.default_rng(seed).integers(0, count, (150, 2))
    drawn = seeding.np_random(seed)[0].integers(2**31, size=2).tolist()
    for index in range(2):
        game = minatar.Environment(GAMES[id])
        game.seed(drawn[index])
        game.reset()
        ended = False
        for moment, action in zip(moments[1:], actions[:, index], strict=True):
            reward, was_over = 0.0, ended
            if was_over:
                game.reset()
                game.last_action, ended = 0, False
            else:
                reward, ended = game.act(game.minimal_action_set()[action])
            assert (moment.reward[index], moment.terminated[index]) == (reward, ended)
            assert np.array_equal(moment.observation[index], game.state().transpose(2, 0, 1))
        assert ended or any(m.terminated[index] for m in moments) or id != BREAKOUT


def test_seed_and_actions_determine_everything_across_episodes():
    first, again, other = (play(games(2), 200, seed) for seed in (3, 3, 4))
    assert equal(first, again)
    assert not equal(first, other)
    assert sum(moment.terminated.sum() for moment in first) >= 4


def test_a_reset_with_a_seed_does_not_depend_on_earlier_play():
    env = games(2)
    play(env, 50, seed=9)
    assert equal(play(env, 100, seed=1), play(games(2), 100, seed=1))


def test_copies_differ_and_unseeded_resets_continue_the_random_stream():
    env = games(8)
    first, _ = env.reset(seed=0)
    assert len({copy.tobytes() for copy in first}) > 1
    starts = {env.reset()[0].tobytes() for _ in range(6)}
    assert len(starts) > 1


def test_the_step_after_the_last_observation_only_resets():
    moments = play(games(), 200)
    last = next(index for index, moment in enumerate(moments) if moment.terminated[0])
    begun = moments[last + 1]
    assert not np.array_equal(moments[last].observation, begun.observation)
    assert (begun.reward[0], begun.terminated[0], begun.truncated[0]) == (0, False, False)
    # a new game of Breakout: the ball in row 3, three whole rows of bricks
    paddle, ball, _, bricks = begun.observation[0]
    assert paddle[9].sum() == 1
    assert ball[3].sum() == ball.sum() == 1
    assert bricks.sum() == bricks[1:4].sum() == 30


def test_the_action_of_a_reset_step_is_ignored():
    def after(action: int) -> np.ndarray:
        env = games(max_game_steps=2, repeat_probability=0.0)
        env.reset(seed=0)
        for chosen in (0, 0, action, 0):
            observation = env.step([chosen])[0]
        return observation

    assert np.array_equal(after(1), after(2))


def test_a_time_out_is_truncated_and_not_terminated():
    # limit 3:   step 1 2 3   -> truncated at the third; then one step that resets, and three again
    env = games(2, max_game_steps=3)  # the ball needs six steps to the floor
    moments = play(env, 8)
    assert [m.truncated.tolist() for m in moments[1:]] == [
        *[[False] * 2, [False] * 2, [True] * 2, [False] * 2],
        *[[False] * 2, [False] * 2, [True] * 2, [False] * 2],
    ]
    assert not any(m.terminated.any() for m in moments)


def test_termination_at_the_time_limit_is_terminated():
    ends = play(games(repeat_probability=0.0), 200)
    length = next(i for i, moment in enumerate(ends) if moment.terminated[0])
    cut = play(games(repeat_probability=0.0, max_game_steps=length), 200)[length]
    assert (cut.terminated[0], cut.truncated[0]) == (True, False)


@pytest.mark.parametrize(("probability", "low", "high"), [(0, 0, 0), (0.25, 0.21, 0.29), (1, 1, 1)])
def test_actions_stick_as_often_as_configured(probability: float, low: float, high: float):
    env = games(repeat_probability=probability)
    env.reset(seed=0)
    game: Any = env._games[0]
    stuck, ended = [], False
    for _ in range(1_500):
        last, chosen = game.last_action, 0 if game.last_action else 1
        _, _, terminated, _, _ = env.step([chosen])
        if not ended:
            stuck.append(game.last_action == last)
        ended = terminated[0]
    assert low <= np.mean(stuck) <= high


def test_difficulty_ramping_can_be_switched_off():
    for ramping in (False, True):
        env = games(id="MinAtar/Asterix-v1", difficulty_ramping=ramping)
        assert env._games[0].env.ramping == ramping


def test_a_step_before_any_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        games().step([0])


def test_an_unknown_game_is_answered_with_the_nearest_one():
    with pytest.raises(UserError, match="did you mean 'MinAtar/Breakout-v1'"):
        envs.make_vec(RunConfig(env="MinAtar/Brekout-v1"), 1)


def test_without_minatar_one_sentence_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "minatar", None)
    with pytest.raises(UserError, match=r'needs minatar: pip install "visr\[minatar\]"'):
        envs.make_vec(RunConfig(env=BREAKOUT), 1)


def test_the_games_start_without_warnings():
    program = (
        "import sys; sys.modules['seaborn'] = None\n"
        "from visr import envs; from visr.config import RunConfig\n"
        f"envs.make_vec(RunConfig(env={BREAKOUT!r}), 1).reset(seed=0)\n"
        "import logging; logging.warning('heard')\n"
    )
    answer = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (answer.returncode, answer.stdout) == (0, "")
    assert answer.stderr == "WARNING:root:heard\n"  # ours alone: what was disabled is enabled again
