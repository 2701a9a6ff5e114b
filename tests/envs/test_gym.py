"""Other people's environments: what networks see of them, and what their actions become."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from visr import envs
from visr.config import GymConfig, RunConfig
from visr.envs import gym
from visr.envs import spaces as spaces_codec
from visr.envs.gym import GymEnvs
from visr.errors import UserError
from visr.inference import expression


class Made(gymnasium.Env):
    """Shows what it is told to, and remembers what it was told to do."""

    def __init__(self, space: spaces.Space, shown: Any, actions: spaces.Space) -> None:
        self.observation_space, self.action_space, self.shown = space, actions, shown
        self.acted: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.acted.append(action)
        return self.shown, 0.5, False, False, {}


class Words(spaces.Space[str]):
    """A space of texts that is not Gymnasium's own, like MiniGrid's missions."""

    def __init__(self) -> None:
        super().__init__(dtype=str)  # pyright: ignore

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


TWO = spaces.Discrete(2)
Make = Callable[..., GymEnvs]


@pytest.fixture
def made() -> Iterator[Make]:
    """A function: a space, what is shown, actions -> two copies of an environment of that kind."""
    ids: list[str] = []

    def make(
        space: spaces.Space = spaces.Discrete(2),  # noqa: B008
        shown: Any = 0,
        actions: spaces.Space = spaces.Discrete(2),  # noqa: B008
        **settings: Any,
    ) -> GymEnvs:
        ids.append(f"Made{len(ids)}-v0")
        gymnasium.register(
            ids[-1], entry_point=lambda **_: Made(space, shown, actions), disable_env_checker=True
        )
        env = envs.make_vec(RunConfig(env=ids[-1], gym=GymConfig(**settings)), 2)
        assert isinstance(env, GymEnvs)
        return env

    yield make
    for id in ids:
        gymnasium.registry.pop(id)


def known(id: str, num_envs: int = 3, **settings: Any) -> GymEnvs:
    if id.startswith("LunarLander") and importlib.util.find_spec("Box2D") is None:
        pytest.skip("no Box2D")
    if id.startswith("MiniGrid"):
        pytest.importorskip("minigrid")  # which registers them
    env = envs.make_vec(RunConfig(env=id, gym=GymConfig(**settings)), num_envs)
    assert isinstance(env, GymEnvs)
    return env


def test_the_advice_of_gymnasiums_checker_is_kept_and_not_printed(
    capsys: pytest.CaptureFixture[str],
):
    space = spaces.Box(0, 1, (2,), np.float32)
    gymnasium.register("Double-v0", entry_point=lambda **_: Made(space, np.zeros(2), TWO))
    try:
        env = envs.make_vec(RunConfig(env="Double-v0"), 2)
        assert isinstance(env, GymEnvs)
        env.reset(seed=0)
        assert env.step(np.zeros(2, np.int64))[0].dtype == np.float32
        assert sum("actual type: float64" in text for text in env.warnings) == 2  # reset, step
        assert not any("\x1b" in text or "WARN" in text for text in env.warnings)
        assert capsys.readouterr().err == ""
    finally:
        gymnasium.registry.pop("Double-v0")


# --- well-known environments


@pytest.mark.parametrize(
    ("id", "seen", "num_actions"),
    [
        ("CartPole-v1", (4,), 2),
        ("Acrobot-v1", (6,), 3),
        ("MountainCar-v0", (2,), 3),
        ("FrozenLake-v1", 16, 4),
        ("Taxi-v4", 500, 6),
        ("LunarLander-v3", (8,), 4),
        ("MiniGrid-FourRooms-v0", (7 * 7 * 3 + 4,), 7),  # the image, the direction; no mission
        ("MiniGrid-DoorKey-5x5-v0", (7 * 7 * 3 + 4,), 7),
    ],
)
def test_known_environments_become_a_state_or_a_vector(id: str, seen: Any, num_actions: int):
    env = known(id)
    is_state = isinstance(seen, int)
    space = spaces.Discrete(seen) if is_state else spaces.Box(-np.inf, np.inf, seen, np.float32)
    assert env.single_observation_space == space
    assert env.single_action_space == spaces.Discrete(num_actions)
    assert env.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    shape, dtype = ((3,), np.int64) if is_state else ((3, *seen), np.float32)
    observation, _ = env.reset(seed=0)
    for action in np.random.default_rng(0).integers(num_actions, size=(5, 3)):
        assert (observation.shape, observation.dtype) == (shape, dtype)
        assert observation in env.observation_space
        observation, reward, terminated, truncated, _ = env.step(action)
        assert (reward.dtype, reward.shape) == (np.float32, (3,))
        assert terminated.dtype == truncated.dtype == np.bool_
    env.close()


def test_minigrids_image_and_direction_become_one_vector():
    env = known("MiniGrid-FourRooms-v0", 1)
    observation, _ = env.reset(seed=4)
    inner, _ = known("MiniGrid-FourRooms-v0", 1).inner.reset(seed=gym.spread_seeds(4, 1)[0])
    direction = np.eye(4)[inner["direction"]]
    assert np.array_equal(observation, np.hstack([direction, inner["image"].reshape(1, -1)]))
    assert env.codec.field_names[:4] == [f"direction_{k}" for k in range(4)]
    assert env.codec.field_names[4] == "image_0"
    assert len(env.codec.field_names) == env.single_observation_space.shape[0]  # pyright: ignore


@pytest.mark.parametrize("id", ["CartPole-v1", "FrozenLake-v1", "MiniGrid-FourRooms-v0"])
def test_neighbouring_seeds_share_no_episode(id: str):
    """Games that judge must not be those that were learnt from."""
    env = known(id, 8)
    walks = []
    for seed in (0, 1):
        env.reset(seed=seed)
        steps = [env.step(np.full(8, k % 2))[0].reshape(8, -1) for k in range(12)]
        walks.append({walk.tobytes() for walk in np.stack(steps, axis=1)})
    shared = walks[0] & walks[1]
    assert len(shared) <= (
        3 if id == "FrozenLake-v1" else 0
    )  # whose sixteen cells leave little choice
    env.close()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_environments_in_other_processes_give_equal_observations():
    together, apart = known("CartPole-v1", 2), known("CartPole-v1", 2, vectorize="async")
    try:
        assert np.array_equal(together.reset(seed=5)[0], apart.reset(seed=5)[0])
        for action in np.random.default_rng(0).integers(2, size=(60, 2)):  # beyond a first episode
            some, others = together.step(action)[:4], apart.step(action)[:4]
            assert all(np.array_equal(a, b) for a, b in zip(some, others, strict=True))
    finally:
        apart.close()


# --- observations


@pytest.mark.parametrize(
    ("space", "shown", "seen"),
    [
        (spaces.MultiBinary(3), [1, 0, 1], [1, 0, 1]),
        (spaces.MultiBinary((2, 2)), [[1, 0], [0, 1]], [1, 0, 0, 1]),
        (spaces.MultiDiscrete([2, 3]), [1, 2], [0, 1, 0, 0, 1]),
        (spaces.MultiDiscrete([2, 3], start=[0, 4]), [1, 5], [0, 1, 0, 1, 0]),
        (spaces.Box(0, 9, (2, 2), np.float64), [[1, 2], [3, 4.5]], [1, 2, 3, 4.5]),
        (spaces.Box(0, 9, (), np.float32), 7.0, [7]),
        (spaces.Box(0, 255, (2,), np.uint8), [3, 255], [3, 255]),
        (spaces.Tuple([spaces.Box(0, 9, (1,)), spaces.Discrete(2)]), ([3.0], 1), [3, 0, 1]),
        (
            spaces.Dict(
                far=spaces.Box(0, 9, (2,)),
                door=spaces.Discrete(2, start=1),
                note=spaces.Text(9),
                words=Words(),
                deep=spaces.Dict(x=spaces.MultiBinary(2)),
            ),
            {"far": [5, 6], "door": 2, "note": "go", "words": "on", "deep": {"x": [0, 1]}},
            [5, 6, 0, 1, 0, 1],  # far, door, deep; no words
        ),
    ],
)
def test_other_spaces_become_a_vector(
    made: Make, space: spaces.Space, shown: Any, seen: list[float]
):
    env = made(space, _as(space, shown))
    observation, _ = env.reset(seed=0)
    assert env.single_observation_space == spaces.Box(-np.inf, np.inf, (len(seen),), np.float32)
    assert observation.dtype == np.float32
    assert observation.tolist() == [seen, seen]
    assert env.step(np.array([0, 1]))[0].tolist() == [seen, seen]


def _as(space: spaces.Space, shown: Any) -> Any:
    """Lists as arrays, as environments have them."""
    if isinstance(space, spaces.Dict):
        return {key: _as(part, shown[key]) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_as(part, piece) for part, piece in zip(space, shown, strict=True))
    is_array = isinstance(space, spaces.Box | spaces.MultiBinary | spaces.MultiDiscrete)
    return np.asarray(shown, dtype=space.dtype) if is_array else shown


def test_discrete_states_with_an_offset_start_at_zero(made: Make):
    env = made(spaces.Discrete(3, start=5), 7)
    observation, _ = env.reset(seed=0)
    assert env.single_observation_space == spaces.Discrete(3)
    assert (observation.tolist(), observation.dtype) == ([2, 2], np.int64)


@pytest.mark.parametrize(
    ("shape", "seen", "order"),
    [
        ((20, 30, 3), (3, 20, 30), (2, 0, 1)),
        ((3, 20, 30), (3, 20, 30), (0, 1, 2)),
        ((5, 5, 4), (4, 5, 5), (2, 0, 1)),
        ((4, 84, 84), (4, 84, 84), (0, 1, 2)),
        ((6, 7), (1, 6, 7), None),
    ],
)
def test_images_become_planes(made: Make, shape: Any, seen: Any, order: Any):
    image = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
    env = made(spaces.Box(0, 255, shape, np.uint8), image)
    observation, _ = env.reset(seed=0)
    assert env.single_observation_space == spaces.Box(0, 255, seen, np.uint8)
    assert observation in env.observation_space
    expected = image[None] if order is None else image.transpose(order)
    assert np.array_equal(observation, np.stack([expected, expected]))
    assert env.codec.field_names == []


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Text(5), "nothing to learn from"),
        (spaces.Sequence(spaces.Discrete(2)), "which visr cannot read"),
        (spaces.Dict(a=spaces.Graph(spaces.Discrete(2), None)), r"observations\[a\] are Graph"),
    ],
)
def test_observations_without_numbers_are_refused_in_a_sentence(space: spaces.Space, words: str):
    with pytest.raises(UserError, match=words) as refused:
        spaces_codec.observations(space)
    assert "\n" not in str(refused.value)


# --- names


def test_the_numbers_of_well_known_environments_have_names():
    assert known("CartPole-v1").codec.field_names == [
        "position",
        "velocity",
        "angle",
        "angular_velocity",
    ]
    assert known("MountainCar-v0").codec.field_names == ["position", "velocity"]
    assert known("Taxi-v4").codec.field_names == ["state"]
    for id in ("Acrobot-v1", "LunarLander-v3"):
        env = known(id)
        assert len(env.codec.field_names) == env.single_observation_space.shape[0]  # pyright: ignore
    assert envs.space_codec(RunConfig(env="CartPole-v1")).field_names[0] == "position"


@pytest.mark.parametrize(
    ("space", "names"),
    [
        (spaces.Box(0, 1, (3,)), ["x0", "x1", "x2"]),
        (spaces.MultiDiscrete([2, 1]), ["x0", "x1", "x2"]),
        (spaces.Discrete(4, start=2), ["state"]),
        (spaces.Tuple([spaces.Box(0, 1, (1,)), spaces.Discrete(2)]), ["x0", "x1_0", "x1_1"]),
        (
            spaces.Dict({"speed": spaces.Box(0, 1, ()), "where": spaces.Box(0, 1, (2,))}),
            ["speed", "where_0", "where_1"],
        ),
        (spaces.Dict({"a b-c": spaces.Box(0, 1, (1,))}), ["a_b_c"]),
        (
            spaces.Dict({"a-b": spaces.Box(0, 1, ()), "a_b": spaces.Box(0, 1, ())}),
            ["a_b", "a_b_2"],
        ),
        (spaces.Dict({"action": spaces.Box(0, 1, ())}), ["action_2"]),
        (spaces.Dict({"2nd": spaces.Box(0, 1, (1,))}), ["x2nd"]),
        (spaces.Dict({"in": spaces.Box(0, 1, (1,)), "": spaces.Box(0, 1, (1,))}), ["x", "in_"]),
        (spaces.Dict({"t": spaces.Text(3), "u": spaces.Dict(v=spaces.Discrete(1))}), ["u_v"]),
    ],
)
def test_field_names_are_identifiers_that_expressions_can_use(
    made: Make, space: spaces.Space, names: list[str]
):
    env = made(space)
    assert env.codec.field_names == names
    scope = {name: np.full(2, index) for index, name in enumerate(names)}
    for index, name in enumerate(names):
        assert expression.evaluate(f"{name} + 1", scope).tolist() == [index + 1] * 2


# --- actions


def test_action_indices_become_the_environments_own_actions(made: Make):
    env = made(actions=spaces.Discrete(3, start=5))
    assert env.single_action_space == spaces.Discrete(3)
    env.reset(seed=0)
    env.step(np.array([0, 2]))
    assert [copy.unwrapped.acted for copy in env.inner.envs] == [[5], [7]]  # pyright: ignore


def test_combinations_of_discrete_actions_become_one_index(made: Make):
    env = made(actions=spaces.MultiDiscrete([2, 3], start=[0, 4]))
    assert env.single_action_space == spaces.Discrete(6)
    assert env.codec.actions.tolist() == [[0, 4], [0, 5], [0, 6], [1, 4], [1, 5], [1, 6]]
    env.reset(seed=0)
    env.step(np.array([1, 5]))
    first, second = (copy.unwrapped.acted[0] for copy in env.inner.envs)  # pyright: ignore
    assert (first.tolist(), second.tolist()) == ([0, 5], [1, 6])


def test_discretised_actions_span_the_bounds(made: Make):
    low, high = np.array([-2, 0], np.float32), np.array([2, 0.3], np.float32)
    env = made(actions=spaces.Box(low, high), discretise=3)
    assert env.single_action_space == spaces.Discrete(9)
    assert env.codec.actions.dtype == np.float32
    assert np.array_equal(env.codec.actions[[0, -1]], [low, high])
    assert np.allclose(env.codec.actions[:4], [[-2, 0], [-2, 0.15], [-2, 0.3], [0, 0]])
    assert all(action in env.inner.single_action_space for action in env.codec.actions)
    env.reset(seed=0)
    env.step(np.array([0, 8]))
    assert np.array_equal([copy.unwrapped.acted[0] for copy in env.inner.envs], [low, high])  # pyright: ignore


def test_discretised_actions_of_the_widest_bounds_are_finite():
    widest = spaces.Box(-np.finfo(np.float32).max, np.finfo(np.float32).max, (1,), np.float32)
    assert np.isfinite(spaces_codec.actions(widest, 3)).all()


def test_a_real_continuous_environment_can_be_played():
    env = known("MountainCarContinuous-v0", 2, discretise=5)
    env.reset(seed=0)
    assert env.codec.actions.ravel().tolist() == [-1, -0.5, 0, 0.5, 1]
    assert env.step(np.array([0, 4]))[0].shape == (2, 2)


@pytest.mark.parametrize(
    ("space", "discretise", "words"),
    [
        (spaces.Box(-1, 1, (2,)), 0, "continuous; discretise=3 would"),
        (spaces.Box(-1, 1, (2,)), 1, "at least 2 values"),
        (spaces.Box(-np.inf, 1, (2,)), 3, "actions with bounds"),
        (spaces.Box(-1, 1, (7,)), 3, r"3\^7 actions; at most 1,000"),
        (spaces.Box(-1, 1, (20_000,)), 3, "at most 1,000"),
        (spaces.Discrete(2), 3, "discretise = 3 is for continuous actions"),
        (spaces.MultiDiscrete([2, 2]), 3, "discretise = 3 is for continuous actions"),
        (spaces.MultiDiscrete([11, 100]), 0, "visr chooses among a few"),
        (spaces.MultiDiscrete([2] * 64), 0, "visr chooses among a few"),  # 2^64 is 0 in 64 bits
        (spaces.MultiBinary(3), 0, "visr chooses among a few"),
    ],
)
def test_actions_that_are_too_many_or_unbounded_are_refused_in_a_sentence(
    space: spaces.Space, discretise: int, words: str
):
    with pytest.raises(UserError, match=words) as refused:
        spaces_codec.actions(space, discretise)
    assert "\n" not in str(refused.value)


def test_a_thousand_actions_are_not_too_many():
    assert spaces_codec.actions(spaces.Box(-1, 1, (3,)), 10).shape == (1_000, 3)
    assert spaces_codec.actions(spaces.MultiDiscrete([10, 100]), 0).shape == (1_000, 2)


def test_an_error_while_building_an_environment_is_one_sentence():
    def broken(**_: Any) -> gymnasium.Env:
        raise RuntimeError("no screen\nanywhere.")

    gymnasium.register("Broken-v0", entry_point=broken)
    try:
        with pytest.raises(
            UserError, match=r"'Broken-v0' could not be built: no screen anywhere\."
        ):
            envs.make_vec(RunConfig(env="Broken-v0"), 1)
    finally:
        gymnasium.registry.pop("Broken-v0")
