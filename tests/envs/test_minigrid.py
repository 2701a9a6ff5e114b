"""MiniGrid with numbered states steps as MiniGrid does."""

import importlib.util

import gymnasium
import numpy as np
import pytest

from visr import envs
from visr.commands.list import listed_envs
from visr.config import MINIGRID, RunConfig, presets
from visr.errors import UserError

if importlib.util.find_spec("minigrid") is None:
    pytest.skip("no minigrid", allow_module_level=True)

from visr.envs import minigrid

IDS = [id for id, _ in listed_envs() if id.startswith(MINIGRID)]


@pytest.mark.parametrize("id", IDS)
def test_the_table_steps_as_minigrid_does(id: str):
    task = id.removeprefix("visr/")
    table, env, rng = minigrid.table(task), minigrid._made(task), np.random.default_rng(0)
    assert 0 < table.ends.sum() < table.ends.size
    assert (table.reward > 0).any()
    for _ in range(20):
        env.reset(seed=minigrid.LAYOUT)
        now = 0
        assert minigrid._state(env) == table.states[now]
        for action in rng.integers(len(table.actions), size=60):
            env.step_count = 0  # the reward falls with it
            _, reward, terminated, _, _ = env.step(table.actions[action])
            known = table.reward[now, action] > 0, table.ends[now, action]
            assert (reward > 0, terminated) == known
            now = table.after[now, action]
            assert minigrid._state(env) == table.states[now]
            if terminated:
                break


def test_episodes_begin_where_the_task_puts_the_agent_and_end_at_the_goal_or_the_limit():
    env = gymnasium.make("visr/MiniGrid-DoorKey-5x5-v0")
    table = env.unwrapped.table  # pyright: ignore
    starts = {int(env.reset(seed=seed)[0]) for seed in range(60)}
    assert starts == set(table.starts.tolist())
    assert all(table.states[k].carries is None for k in starts)
    for number in range(1, 251):
        _, reward, terminated, truncated, _ = env.step(0)  # turn
        assert (reward, terminated, truncated) == (0, False, number == 250)
    solving = np.argwhere(table.reward > 0)[0]
    env.reset(seed=0)
    env.unwrapped._now = solving[0]  # pyright: ignore
    _, reward, terminated, truncated, _ = env.step(solving[1])
    assert reward == pytest.approx(1 - 0.9 / 250)
    assert terminated
    assert not truncated


def test_it_draws_minigrids_own_picture():
    env = gymnasium.make("visr/MiniGrid-DoorKey-5x5-v0", render_mode="rgb_array")
    env.reset(seed=0)
    first = np.asarray(env.render())
    assert first.ndim == 3
    assert first.std() > 0
    env.unwrapped._now = len(env.unwrapped.table.states) - 1  # pyright: ignore
    assert not np.array_equal(first, np.asarray(env.render()))


def test_the_learner_sees_states_and_uses_the_preset_for_many_of_them():
    spec = envs.spec(RunConfig(env="visr/MiniGrid-FourRooms-v0"))
    assert spec.observation_space == gymnasium.spaces.Discrete(1_040)
    assert spec.num_actions == 3  # the others change nothing
    chosen = presets.for_environment("visr/MiniGrid-FourRooms-v0")
    assert chosen.agent.algorithm == "replay"
    assert chosen.agent.num_features == 320


def test_an_unknown_task_is_refused_by_name():
    with pytest.raises(UserError, match="MiniGrid-DoorKey-5x5-v0"):
        envs.spec(RunConfig(env="visr/MiniGrid-DoorKey-5x4-v0"))
