from __future__ import annotations

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from visr import envs
from visr.commands.list import listed_envs
from visr.config import ATARI, GridConfig, RunConfig
from visr.envs.grid.env import GridEnv, GridVectorEnv
from visr.envs.grid.world import GridWorld
from visr.errors import UserError

UP, LEFT, DOWN, RIGHT = range(4)


def walled() -> GridWorld:
    # . . .
    # . # .
    walls = np.zeros((2, 3), dtype=np.bool_)
    walls[1, 1] = True
    return GridWorld(2, 3, walls)


def from_state(world: GridWorld, state: int) -> GridWorld:
    return GridWorld(world.height, world.width, world.walls, np.eye(world.num_states)[state])


# --- the world


def test_moves_are_up_left_down_right_and_edges_hold_the_agent():
    # 0 1 2
    # 3 4 5
    table = GridWorld(2, 3).transitions
    assert table[0].tolist() == [0, 0, 3, 1]
    assert table[4].tolist() == [1, 3, 4, 5]
    assert table[5].tolist() == [2, 4, 5, 5]
    assert table.dtype == np.int64


def test_walls_hold_the_agent_and_nothing_enters_or_leaves_them():
    world = walled()
    assert world.free.tolist() == [True, True, True, True, False, True]
    assert world.transitions[1].tolist() == [1, 0, 1, 2]
    assert world.transitions[3].tolist() == [0, 3, 3, 3]
    assert world.transitions[4].tolist() == [4, 4, 4, 4]
    assert world.free[world.transitions[world.free]].all()


def test_episodes_start_on_all_free_cells_alike_unless_told_otherwise():
    assert walled().start.tolist() == [0.2, 0.2, 0.2, 0.2, 0.0, 0.2]
    weights = np.array([0.0, 3.0, 0, 0, 0, 1.0])
    assert GridWorld(2, 3, start_weights=weights).start.tolist() == [0, 0.75, 0, 0, 0, 0.25]


def test_starts_are_drawn_as_often_as_their_weights_say():
    world = GridWorld(1, 4, start_weights=np.array([0.0, 1.0, 0.0, 3.0]))
    counts = np.bincount(world.draw_starts(40_000, np.random.default_rng(0)), minlength=4)
    assert counts[[0, 2]].tolist() == [0, 0]
    assert counts[3] / 40_000 == pytest.approx(0.75, abs=0.01)


def test_four_rooms_of_five_by_five_look_like_this():
    picture = [
        ".....",
        "..#..",
        ".##.#",
        ".....",
        "..#..",
    ]
    world = GridWorld.four_rooms(5, 5)
    rows = ["".join(".#"[not free] for free in row) for row in world.free.reshape(5, 5)]
    assert rows == picture


@pytest.mark.parametrize(("height", "width"), [(5, 5), (5, 8), (6, 5), (10, 10), (11, 13), (40, 7)])
def test_four_rooms_have_four_doors_and_all_cells_are_connected(height: int, width: int):
    world = GridWorld.from_config(GridConfig(height, width, "four-rooms"))
    row, col = height // 2, width // 2
    free = world.free.reshape(height, width)
    assert free[row].sum() == free[:, col].sum() == 2
    assert free.sum() == height * width - (height + width - 1) + 4
    reached = {int(np.flatnonzero(world.free)[0])}
    frontier = list(reached)
    while frontier:
        new = set(world.transitions[frontier].ravel().tolist()) - reached
        reached |= new
        frontier = list(new)
    assert reached == set(np.flatnonzero(world.free).tolist())


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: GridWorld(0, 3), "0 x 3"),
        (lambda: GridWorld(3, -1), "3 x -1"),
        (lambda: GridWorld(10**6, 10**6), "too large"),
        (lambda: GridWorld.four_rooms(10**6, 10**6), "too large"),
        (lambda: GridWorld.four_rooms(4, 9), "4 x 9"),
        (lambda: GridWorld.from_config(GridConfig(9, 4, "four-rooms")), "9 x 4"),
        (lambda: GridWorld.from_config(GridConfig(layout="maze")), "maze"),  # type: ignore[arg-type]
        (lambda: GridWorld(2, 2, np.ones((2, 2), dtype=np.bool_)), "at least one free"),
        (lambda: GridWorld(2, 2, np.zeros((2, 3), dtype=np.bool_)), "(2, 3)"),
        (lambda: GridWorld(2, 2, start_weights=np.ones(3)), "(3,)"),
        (lambda: GridWorld(2, 2, start_weights=np.zeros(4)), "zero"),
        (lambda: GridWorld(1, 2, start_weights=np.array([2.0, -1.0])), "negative"),
        (lambda: GridWorld(1, 2, start_weights=np.array([np.nan, 1.0])), "finite"),
        (lambda: from_state(walled(), 4), "row 1, column 1"),
        (lambda: GridVectorEnv(walled(), 0), "num_envs is 0"),
        (lambda: GridVectorEnv(walled(), max_episode_steps=-1), "max_episode_steps is -1"),
        (lambda: GridVectorEnv(walled(), reward=[1, 2]), "(2,)"),
        (lambda: GridVectorEnv(walled(), terminal=[True]), "(1,)"),
        (lambda: GridVectorEnv(walled(), observation="picture"), "picture"),  # type: ignore[arg-type]
        (lambda: GridEnv(walled(), render_mode="human"), "human"),
    ],
)
def test_an_impossible_world_is_refused_in_one_sentence(build, words: str):
    with pytest.raises(UserError) as refusal:
        build()
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


# --- the vector environment


def test_agents_walk_through_the_table_without_reward():
    env = GridVectorEnv(GridWorld(3, 3), 5)
    before, info = env.reset(seed=3)
    assert info == {}
    actions = np.array([UP, LEFT, DOWN, RIGHT, UP])
    after, reward, terminated, truncated, _ = env.step(actions)
    assert after.tolist() == env.world.transitions[before, actions].tolist()
    assert reward.tolist() == [0.0] * 5
    assert not terminated.any()
    assert not truncated.any()
    assert after in env.observation_space
    assert actions in env.action_space


def test_reward_is_collected_on_arrival():
    env = GridVectorEnv(from_state(GridWorld(1, 3), 0), 1, reward=[10, 20, 30])
    env.reset(seed=0)
    assert [env.step([action])[1][0] for action in (LEFT, RIGHT, RIGHT, LEFT)] == [10, 20, 30, 20]


def test_a_time_out_is_truncated_and_the_next_step_resets():
    #  step         1     2      3 (reset)   4     5      6 (reset)
    #  observation  1     2      0           1     2      0
    env = GridVectorEnv(from_state(GridWorld(1, 4), 0), 1, max_episode_steps=2, reward=[9, 1, 2, 3])
    env.reset(seed=0)
    steps = [env.step([RIGHT]) for _ in range(6)]
    assert [int(step[0][0]) for step in steps] == [1, 2, 0, 1, 2, 0]
    assert [float(step[1][0]) for step in steps] == [1, 2, 0, 1, 2, 0]
    assert [bool(step[2][0]) for step in steps] == [False] * 6
    assert [bool(step[3][0]) for step in steps] == [False, True, False, False, True, False]


def test_arriving_at_a_terminal_state_is_terminated_and_the_next_step_resets():
    env = GridVectorEnv(from_state(GridWorld(1, 3), 0), 1, terminal=[False, False, True])
    env.reset(seed=0)
    steps = [env.step([RIGHT]) for _ in range(4)]
    assert [int(step[0][0]) for step in steps] == [1, 2, 0, 1]
    assert [bool(step[2][0]) for step in steps] == [False, True, False, False]
    assert not any(step[3][0] for step in steps)


def test_each_agent_resets_in_its_own_time():
    world = GridWorld(1, 3, start_weights=np.array([1.0, 0, 0]))
    env = GridVectorEnv(world, 2, terminal=[False, True, False])
    env.reset(seed=0)
    first = env.step([RIGHT, LEFT])
    assert first[2].tolist() == [True, False]
    second = env.step([RIGHT, RIGHT])
    assert second[0].tolist() == [0, 1]
    assert second[2].tolist() == [False, True]
    third = env.step([LEFT, RIGHT])
    assert third[0].tolist() == [0, 0]


def test_returned_observations_can_be_kept_and_written_to():
    env, other = (GridVectorEnv(GridWorld(4, 4), 6, max_episode_steps=3) for _ in range(2))
    env.reset(seed=1)
    other.reset(seed=1)
    for _ in range(8):
        mine, theirs = env.step([UP] * 6), other.step([UP] * 6)
        for a, b in zip(mine[:4], theirs[:4], strict=True):
            assert np.array_equal(a, b)
            b[:] = 1


@pytest.mark.parametrize("actions", [[4, 0], [-1, 0], [0], [[0, 1]], [0, 2**40]])
def test_an_action_that_does_not_exist_is_refused(actions):
    env = GridVectorEnv(GridWorld(3, 3), 2)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="2 integers from 0 to 3"):
        env.step(actions)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64])
def test_actions_may_be_integers_of_any_kind_but_not_fractions(dtype):
    env = GridVectorEnv(GridWorld(3, 3), 2)
    env.reset(seed=0)
    env.step(np.array([0, 3], dtype=dtype))
    with pytest.raises(TypeError):
        env.step(np.array([0.5, 1.0]))


def test_stepping_before_a_reset_is_refused():
    with pytest.raises(gymnasium.error.ResetNeeded):
        GridVectorEnv(GridWorld(3, 3), 1).step([0])


def test_the_seed_determines_everything():
    def play(seed: int) -> list[list[int]]:
        env = GridVectorEnv(GridWorld(5, 5), 4, max_episode_steps=3)
        seen = [env.reset(seed=seed)[0]]
        seen += [env.step([UP, LEFT, DOWN, RIGHT])[0] for _ in range(20)]
        return [observation.tolist() for observation in seen]

    assert play(7) == play(7)
    assert play(7) != play(8)


@pytest.mark.parametrize("stop", [0, 2, 3, 4, 5])
def test_a_restored_environment_continues_bit_by_bit(stop: int):
    def fresh() -> GridVectorEnv:
        return GridVectorEnv(walled(), 7, max_episode_steps=4, terminal=[0, 0, 0, 0, 0, 1])

    actions = np.random.default_rng(0).integers(0, 4, (40, 7))
    env = fresh()
    env.reset(seed=5)
    for action in actions[:stop]:
        env.step(action)
    env.np_random.integers(0, 9, dtype=np.int32)  # leaves half a draw behind in the generator
    saved = env.state()
    assert {name: (a.dtype.name, a.shape) for name, a in saved.items()} == {
        "positions": ("int64", (7,)),
        "elapsed": ("int64", (7,)),
        "needs_reset": ("bool", (7,)),
        "rng": ("uint64", (6,)),
    }
    kept = {name: array.copy() for name, array in saved.items()}
    expected = [env.step(action) for action in actions[stop:]]
    assert all(np.array_equal(saved[name], kept[name]) for name in saved)
    again = fresh()
    again.load_state(saved)
    for action, old in zip(actions[stop:], expected, strict=True):
        new = again.step(action)
        assert all(np.array_equal(a, b) for a, b in zip(old[:4], new[:4], strict=True))
    assert all(np.array_equal(a, again.state()[name]) for name, a in env.state().items())
    assert env.np_random.random() == again.np_random.random()


def test_a_state_from_other_settings_is_refused():
    env = GridVectorEnv(GridWorld(3, 3), 4)
    env.reset(seed=0)
    with pytest.raises(UserError, match="2 environments"):
        GridVectorEnv(GridWorld(3, 3), 2).load_state(env.state())
    with pytest.raises(UserError, match="1 x 1"):
        GridVectorEnv(GridWorld(1, 1), 4).load_state({**env.state(), "positions": np.full(4, 8)})


def test_one_hot_observations_mark_the_state():
    env = GridVectorEnv(GridWorld(2, 2), 3, observation="one-hot")
    plain = GridVectorEnv(GridWorld(2, 2), 3)
    marked, states = env.reset(seed=4)[0], plain.reset(seed=4)[0]
    assert marked.dtype == np.float32
    assert marked.tolist() == np.eye(4)[states].tolist()
    assert marked in env.observation_space
    assert env.step([UP] * 3)[0].tolist() == np.eye(4)[plain.step([UP] * 3)[0]].tolist()


# --- the single environment


SETTINGS = {
    "height": 3,
    "width": 4,
    "reward": [float(state) for state in range(12)],
    "terminal": [state == 11 for state in range(12)],
}


@pytest.mark.parametrize("observation", ["discrete", "one-hot"])
def test_the_vector_environment_agrees_with_single_ones_step_by_step(observation: str):
    world = from_state(GridWorld(3, 4), 5)  # one start, as each environment has its own generator
    settings = {name: SETTINGS[name] for name in ("reward", "terminal")}
    settings |= {"observation": observation, "max_episode_steps": 9}
    vector = GridVectorEnv(world, 6, **settings)
    singles = gymnasium.vector.SyncVectorEnv([lambda: GridEnv(world, **settings)] * 6)
    assert vector.metadata["autoreset_mode"] is singles.metadata["autoreset_mode"]
    assert vector.observation_space == singles.observation_space
    assert vector.action_space == singles.action_space
    assert np.array_equal(vector.reset(seed=0)[0], singles.reset(seed=0)[0])
    ends = np.zeros(2)
    for action in np.random.default_rng(2).integers(0, 4, (300, 6)):
        ours, theirs = vector.step(action), singles.step(action)
        for a, b in zip(ours[:4], theirs[:4], strict=True):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        ends += [ours[2].sum(), ours[3].sum()]
    assert (ends > 5).all()


def test_a_vector_of_one_agrees_with_a_single_one_over_random_starts():
    settings = {**SETTINGS, "max_episode_steps": 5}
    vector = gymnasium.make_vec("visr/Grid-v0", num_envs=1, **settings)
    single = gymnasium.make("visr/Grid-v0", **settings)
    observation, _ = single.reset(seed=11)
    assert vector.reset(seed=11)[0][0] == observation
    ended = False
    for action in np.random.default_rng(3).integers(0, 4, 200):
        ours = [float(array[0]) for array in vector.step([action])[:4]]
        theirs = (single.reset()[0], 0.0, False, False) if ended else single.step(action)[:4]
        assert ours == list(theirs)
        ended = theirs[2] or theirs[3]
    single.close()
    vector.close()


@pytest.mark.parametrize(
    "settings",
    [{}, {"observation": "one-hot"}, {"layout": "four-rooms", "height": 7}, SETTINGS],
)
def test_gymnasiums_checker_passes(settings):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make("visr/Grid-v0", render_mode="ansi", **settings)
        check_env(env.unwrapped)


def test_a_single_environment_does_not_restart_by_itself():
    env = GridEnv(from_state(GridWorld(1, 3), 0), max_episode_steps=1)
    env.reset(seed=0)
    assert env.step(RIGHT) == (1, 0.0, False, True, {})
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(RIGHT)
    assert env.reset() == (0, {})
    assert env.step(RIGHT)[0] == 1


def test_the_picture_shows_walls_and_the_agent():
    env = GridEnv(from_state(walled(), 2), render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == "..A\n.#."
    env = GridEnv(from_state(walled(), 2), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    side = 320 // 3
    assert picture.shape == (2 * side, 3 * side, 3)
    assert picture.dtype == np.uint8
    colours = picture[side // 2 :: side, side // 2 :: side].reshape(6, 3).tolist()
    assert colours[2] not in (colours[0], colours[4])
    assert colours[0] == colours[1] == colours[3] == colours[5] != colours[4]


# --- the door


def test_a_run_gets_the_grid_of_its_config():
    config = RunConfig(grid=GridConfig(6, 7, "four-rooms", max_episode_steps=2))
    env = envs.make_vec(config, 3, seed=0)
    assert isinstance(env, GridVectorEnv)
    assert env.num_envs == 3
    assert (env.world.height, env.world.width) == (6, 7)
    assert np.array_equal(env.world.free, GridWorld.four_rooms(6, 7).free)
    env.reset()
    assert not env.step([UP] * 3)[3].any()
    assert env.step([UP] * 3)[3].all()


@pytest.mark.parametrize("id", ["visr/Grid-v0", "FrozenLake-v1"])
def test_a_seed_in_make_vec_determines_the_first_reset(id: str):
    def first(seed: int) -> list[list[int]]:
        env = envs.make_vec(RunConfig(env=id), 8, seed=seed)
        env.reset()
        actions = [env.action_space.sample() for _ in range(6)]
        return [env.step(action)[0].tolist() for action in actions]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_every_listed_environment_can_be_stepped():
    listed = listed_envs()
    assert listed[0][0] == "visr/Grid-v0"
    assert all(description for _, description in listed)
    for id in (
        id for id, _ in listed if not id.startswith(ATARI)
    ):  # those have a test of their own
        env = envs.make_vec(RunConfig(env=id), 2, seed=0)
        assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        env.reset()
        for _ in range(5):
            env.step(env.action_space.sample())
        env.close()


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("visr/Grid-v1", "did you mean 'visr/Grid-v0'"),
        ("visr/gird-v0", "did you mean 'visr/Grid-v0'"),
        ("grid", "did you mean 'visr/Grid-v0'"),
        ("frozenlake-v1", "did you mean 'FrozenLake-v1'"),
        ("NoSuchThing-v0", "'NoSuchThing-v0'"),
        ("", "''"),
        ("two words", "'two words'"),
    ],
)
def test_an_unknown_environment_is_named_and_help_is_offered(id: str, words: str):
    with pytest.raises(UserError) as refusal:
        envs.make_vec(RunConfig(env=id), 2, seed=0)
    sentence = str(refusal.value)
    assert sentence.startswith("Unknown environment")
    assert words in sentence
    assert "`visr list envs`" in sentence


def test_an_environment_behind_a_module_is_not_imported_unasked():
    with pytest.raises(UserError, match="'antigravity:Thing-v0' would import") as refusal:
        envs.make_vec(RunConfig(env="antigravity:Thing-v0"), 2, seed=0)
    assert "VISR_TRUST=antigravity" in str(refusal.value)
    assert "antigravity" not in sys.modules


class _Broken(gymnasium.Env):
    def __init__(self, **settings: object) -> None:
        raise RuntimeError("the\nsimulator is missing")


def test_environments_that_fail_are_refused():
    gymnasium.register("visr-test/Broken-v0", entry_point=_Broken)
    try:
        with pytest.raises(UserError, match="could not be built: the simulator is missing"):
            envs.make_vec(RunConfig(env="visr-test/Broken-v0"), 1, seed=0)
    finally:
        del gymnasium.registry["visr-test/Broken-v0"]


@pytest.mark.parametrize("id", ["visr/Grid-v0", "FrozenLake-v1"])
def test_no_environments_are_refused(id: str):
    with pytest.raises(UserError, match="num_envs is 0"):
        envs.make_vec(RunConfig(env=id), 0, seed=0)


def test_environments_and_exact_tasks_come_without_torch():
    code = (
        "import sys, visr.envs, visr.envs.grid.dynamic_programming, visr.inference.grid_rewards;"
        "assert 'torch' not in sys.modules and 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
