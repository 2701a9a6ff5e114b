"""Real games: what the emulator does, recorded and checked."""

from __future__ import annotations

import copy
import sys
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from visr import atari_games, envs
from visr.commands.list import listed_envs
from visr.config import AtariConfig, RunConfig
from visr.envs.atari import AtariGames
from visr.errors import UserError

pytest.importorskip("ale_py")

BREAKOUT = "ALE/Breakout-v5"


class Moment(NamedTuple):
    """What one step returned."""

    observation: np.ndarray
    reward: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    info: dict[str, Any]


def breakout(num_envs: int = 1, num_threads: int = 0, **settings: Any) -> AtariGames:
    return AtariGames(AtariConfig(**settings), BREAKOUT, num_envs, num_threads)


def play(env: AtariGames, num_steps: int, seed: int = 0) -> list[Moment]:
    """The first observation as a moment of its own, then random steps."""
    observation, info = env.reset(seed=seed)
    none = np.zeros(env.num_envs, dtype=np.bool_)
    moments = [Moment(observation, none.astype(np.float32), none, none, info)]
    count = env.single_action_space.n  # pyright: ignore
    for actions in np.random.default_rng(seed).integers(0, count, (num_steps, env.num_envs)):
        moments.append(Moment(*env.step(actions)))
    return moments


def equal(some: list[Moment], others: list[Moment]) -> bool:
    return all(
        a.info.keys() == b.info.keys()
        and all(np.array_equal(a.info[key], b.info[key]) for key in a.info)
        and all(np.array_equal(x, y) for x, y in zip(a[:4], b[:4], strict=True))
        for a, b in zip(some, others, strict=True)
    )


@pytest.fixture(scope="module")
def episodes() -> list[Moment]:
    """Two copies of Breakout, each over several whole episodes."""
    return play(breakout(2), 1200)


# --- the 57 games


def test_all_57_games_can_be_played():
    for seed, game in enumerate(atari_games.all_games()):
        env = envs.make_vec(RunConfig(env=game.id), 1)
        assert isinstance(env, AtariGames)
        assert env.single_action_space == gymnasium.spaces.Discrete(game.num_actions), game.id
        for moment in play(env, 20, seed):
            assert moment.observation.shape == (1, 4, 84, 84)
            assert moment.observation.dtype == np.uint8
            assert moment.observation[:, -1].any(), game.id
            assert [a.dtype.name for a in moment[1:4]] == ["float32", "bool", "bool"]
            assert [a.shape for a in moment[1:4]] == [(1,)] * 3
            assert moment.info["lives"].shape == moment.info["life_lost"].shape == (1,)
            assert moment.info["life_lost"].dtype == np.bool_
        env.close()


def test_a_game_beyond_the_57_is_taken_if_ale_has_it():
    assert atari_games.by_id("ALE/Pacman-v5") is None
    env = AtariGames(AtariConfig(), "ALE/Pacman-v5", 1)
    assert play(env, 3)[-1].observation in env.observation_space


def test_all_18_actions_on_demand():
    assert breakout(full_action_space=True).single_action_space == gymnasium.spaces.Discrete(18)


# --- the contract


def test_the_spaces_and_the_auto_reset_are_declared(episodes: list[Moment]):
    env = breakout(2)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert env.num_envs == 2
    assert env.single_observation_space == gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    assert env.observation_space == gymnasium.spaces.Box(0, 255, (2, 4, 84, 84), np.uint8)
    assert env.action_space == gymnasium.spaces.MultiDiscrete([4, 4])
    assert all(moment.observation in env.observation_space for moment in episodes)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step([0, 0])
    env.reset(seed=0)
    env.step(env.action_space.sample())
    env.close()
    assert env.closed


def test_gymnasiums_own_wrapper_counts_its_episodes(episodes: list[Moment]):
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(breakout(2))
    env.reset(seed=0)
    returns = []
    for actions in np.random.default_rng(0).integers(0, 4, (1200, 2)):
        info = env.step(actions)[4]
        returns += info["episode"]["r"][info["_episode"]].tolist() if "episode" in info else []
    assert len(returns) == sum(moment.terminated.sum() for moment in episodes)
    assert sum(returns) <= sum(moment.reward.sum() for moment in episodes)


@pytest.mark.parametrize("actions", [[4, 0], [0, -1], [0], [[0, 0]]])
def test_invalid_actions_are_refused_at_once(actions: list):
    env = breakout(2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="2 integers from 0 to 3"):
        env.step(actions)
    env.step([3, 0])


def test_returned_observations_do_not_change_later():
    env = breakout(2)
    moment = play(env, 5)[-1]
    kept = copy.deepcopy(moment)
    for _ in range(50):
        env.step([1, 2])
    env.reset()
    assert equal([moment], [kept])


def test_writing_into_a_returned_observation_changes_nothing(episodes: list[Moment]):
    env = breakout(2)
    again = []
    observation, info = env.reset(seed=0)
    for actions in np.random.default_rng(0).integers(0, 4, (300, 2)):
        observation[:], info["lives"][:], info["life_lost"][:] = 0, 9, True
        moment = Moment(*env.step(actions))
        observation, info = moment.observation, moment.info
        again.append(copy.deepcopy(moment))
    assert equal(again, episodes[1:301])


# --- determinism


@pytest.mark.parametrize("sticky_actions", [0.0, 0.25])
def test_seed_and_actions_determine_everything(sticky_actions: float):
    first, second, other = (
        play(breakout(2, sticky_actions=sticky_actions, max_episode_frames=900), 700, seed)
        for seed in (3, 3, 4)
    )
    assert equal(first, second)
    assert not equal(first[:1], other[:1])
    assert sum((moment.terminated | moment.truncated).sum() for moment in first) >= 4


def test_a_reset_with_a_seed_does_not_depend_on_earlier_play(episodes: list[Moment]):
    env = breakout(2)
    play(env, 200, seed=9)
    assert equal(play(env, 300), episodes[:301])


def test_threads_change_nothing(episodes: list[Moment]):
    assert equal(play(breakout(2, num_threads=1), 300), episodes[:301])


def test_neighbouring_seeds_share_no_game():
    # ALE's own seeding would make the second game of seed 0 the first of seed 1
    starts = [breakout(4).reset(seed=seed)[1]["episode_frame_number"].tolist() for seed in range(3)]
    assert all(some[1:] != others[:-1] for some, others in pairwise(starts))


def test_resets_without_a_seed_follow_from_the_last_one():
    def starts() -> list[list[int]]:
        env = breakout(3)
        env.reset(seed=5)
        return [env.reset()[1]["episode_frame_number"].tolist() for _ in range(4)]

    assert starts() == starts()
    assert len({tuple(start) for start in starts()}) > 1


def test_a_seed_in_make_vec_determines_what_follows():
    def first(seed: int) -> list[Any]:
        env = envs.make_vec(RunConfig(env=BREAKOUT), 3, seed=seed)
        start = env.reset()[1]["episode_frame_number"].tolist()
        return [start, env.action_space.sample().tolist()]

    assert first(1) == first(1)
    assert first(1) != first(2)


# --- episodes


def test_a_lost_life_is_reported_and_the_episode_continues(episodes: list[Moment]):
    for env in range(2):
        lost = [t for t, moment in enumerate(episodes) if moment.info["life_lost"][env]]
        assert len(lost) >= 4
        for t in lost:
            before, now = episodes[t - 1], episodes[t]
            assert now.info["lives"][env] == before.info["lives"][env] - 1
            assert not now.terminated[env]
            assert not now.truncated[env]


def test_lives_drop_only_where_reported_or_at_an_episodes_end(episodes: list[Moment]):
    for before, now in pairwise(episodes):
        fell = now.info["lives"] < before.info["lives"]
        assert np.array_equal(fell, now.info["life_lost"] | now.terminated)


def test_the_step_after_the_end_only_resets(episodes: list[Moment]):
    ends = [(t, env) for t, m in enumerate(episodes[:-1]) for env in np.flatnonzero(m.terminated)]
    assert len(ends) >= 4
    for t, env in ends:
        end, after = episodes[t], episodes[t + 1]
        assert not end.truncated[env]
        assert not end.info["life_lost"][env]
        assert end.info["lives"][env] == 0
        assert end.observation[env].any(axis=(1, 2)).all()
        assert after.reward[env] == 0
        assert after.info["lives"][env] == 5
        assert not (after.terminated | after.truncated | after.info["life_lost"])[env]
        assert after.info["episode_frame_number"][env] <= 30
        assert after.observation[env].any(axis=(1, 2)).tolist() == [False, False, False, True]


def test_a_time_out_is_truncated_and_not_terminated():
    moments = play(breakout(2, max_episode_frames=200), 120)
    for t, moment in enumerate(moments):
        # 50 steps of 4 frames, not counting no-ops; then the reset step
        assert moment.truncated.tolist() == [t in (50, 101)] * 2
        assert not moment.terminated.any()
    for t in (51, 102):
        assert moments[t].info["lives"].tolist() == [5, 5]
        assert moments[t].reward.tolist() == [0, 0]
        assert not moments[t].info["life_lost"].any()


def test_no_life_is_reported_lost_after_a_time_limit():
    # five balls last longer than 100 steps, one does not
    moments = play(breakout(4, max_episode_frames=400), 400)
    cut = [moment.info["lives"].tolist() for moment in moments if moment.truncated.any()]
    assert min(map(min, cut)) < 5
    for before, now in pairwise(moments):
        fresh = before.truncated | before.terminated
        assert (now.info["lives"][fresh] == 5).all()
        assert not now.info["life_lost"][fresh].any()


def test_a_new_life_gained_before_a_time_out_is_not_lost_at_the_reset(monkeypatch):
    env = breakout(1)
    env.reset(seed=0)
    scripted = iter([(6, False), (6, True), (5, False), (4, False)])

    def step(actions: np.ndarray) -> tuple:
        lives, truncated = next(scripted)
        frames, nothing = np.zeros((1, 4, 84, 84), np.uint8), np.zeros(1, np.bool_)
        info = {"lives": np.array([lives])}
        return frames, np.zeros(1, np.int32), nothing, np.array([truncated]), info

    monkeypatch.setattr(env._ale, "step", step)
    assert [bool(env.step([0])[4]["life_lost"][0]) for _ in range(4)] == [False] * 3 + [True]


def test_no_time_limit_is_too_long():
    assert not play(breakout(max_episode_frames=2**40), 3)[-1].truncated.any()


@pytest.mark.parametrize("noop_max", [0, 30])
def test_episodes_begin_with_up_to_that_many_noops(noop_max: int):
    env = AtariGames(AtariConfig(noop_max=noop_max), "ALE/Freeway-v5", 2)
    env.reset(seed=0)
    counts = {int(count) for _ in range(150) for count in env.reset()[1]["episode_frame_number"]}
    assert counts == set(range(noop_max + 1))


def test_the_stack_begins_with_zeros_and_the_newest_frame_comes_last(episodes: list[Moment]):
    stacks = [moment.observation for moment in episodes[:6]]
    for t in range(3):
        assert not stacks[t][:, : 3 - t].any()
        assert stacks[t][:, 3 - t :].any(axis=(2, 3)).all()
    for before, now in pairwise(stacks):
        assert np.array_equal(now[:, :-1], before[:, 1:])


def test_a_step_is_frame_skip_frames():
    for frame_skip in (1, 4):
        frames = [m.info["episode_frame_number"] for m in play(breakout(frame_skip=frame_skip), 10)]
        assert all(now - before == frame_skip for before, now in pairwise(frames))


def test_rewards_are_not_clipped():
    env = AtariGames(AtariConfig(), "ALE/MsPacman-v5", 2)
    rewards = {float(r) for moment in play(env, 150) for r in moment.reward}
    assert max(rewards) >= 10
    assert all(reward % 10 == 0 for reward in rewards)


# --- the door


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("ALE/Breakot-v5", "did you mean 'ALE/Breakout-v5'"),
        ("ALE/breakout-v5", "did you mean 'ALE/Breakout-v5'"),
        ("ALE/Breakout-v4", "'ALE/Breakout-v5'"),
        ("Breakout-v5", "'ALE/Breakout-v5'"),
        ("ALE/", "Unknown environment 'ALE/'"),
        ("ALE/../../x-v5", "Unknown environment 'ALE/../../x-v5'"),
    ],
)
def test_an_unknown_game_is_named_and_help_is_offered(id: str, words: str):
    with pytest.raises(UserError) as refusal:
        envs.make_vec(RunConfig(env=id), 1)
    assert words in str(refusal.value)
    assert "`visr list envs`" in str(refusal.value)


def test_without_ale_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "ale_py"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match=r'Breakout-v5.*pip install "visr\[atari\]"'):
        envs.make_vec(RunConfig(env=BREAKOUT), 1)
    listed = dict(listed_envs())
    assert "needs visr[atari]" in listed[BREAKOUT]
    assert "needs" not in listed["visr/Grid-v0"]


def test_the_list_names_all_57_games():
    listed = dict(listed_envs())
    assert {id for id in listed if id.startswith("ALE/")} == {g.id for g in atari_games.all_games()}
    assert not any("needs visr[atari]" in text for text in listed.values())


# --- the published scores


def test_there_are_57_games_with_their_subsets():
    listed = atari_games.all_games()
    assert len({game.id for game in listed}) == len({game.name for game in listed}) == 57
    assert [sum(g.in_26 for g in listed), sum(g.in_47 for g in listed)] == [26, 47]
    assert all(game.human > game.random for game in listed)
    assert atari_games.by_id("ALE/UpNDown-v5") in listed
    assert atari_games.by_id("visr/Grid-v0") is None


@pytest.mark.parametrize("game", atari_games.all_games(), ids=lambda game: game.name)
def test_a_human_scores_100_and_a_random_player_0(game: atari_games.Game):
    assert atari_games.human_normalised(game.human, game) == 100
    assert atari_games.human_normalised(game.random, game) == 0


def test_normalised_scores_agree_with_a_worked_one():
    # SimPLe on Boxing, 9.1 in Kaiser et al. (2019): (9.1 - 0.1) / (12.1 - 0.1) is three quarters
    game = atari_games.by_id("ALE/Boxing-v5")
    assert game is not None
    assert atari_games.human_normalised(9.1, game) == pytest.approx(75)
