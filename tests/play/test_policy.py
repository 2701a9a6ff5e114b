"""Policies in other people's programs: the environment's own words in, its own words out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.conftest import tiny
from visr import Run, pretraining
from visr.errors import UserError
from visr.storage.records.task import Task

D = 3
SMALL = {"hidden_sizes": (16, 16), "num_features": D, "num_envs": 4, "num_actor_groups": 1} | {
    "batch_size": 2,
    "unroll_length": 8,
    "num_steps": 64,
    "recorded_steps": 0,
    "checkpoint_every": 10_000,
}


def trained_run(path: Path, env: str, **fields: Any) -> Run:
    """A run of two updates, which is enough to have opinions."""
    return Run(pretraining.start(path, tiny(env=env, **(SMALL | fields))))


def task(run: Run, w: Any = (1.0, 0.0, 0.0)) -> Task:
    nothing: dict[str, Any] = {"r_squared": 0.0, "condition_number": 1.0}
    vector = np.asarray(w, dtype=np.float64)
    return Task(
        "mine",
        run.config.env,
        vector,
        "by hand",
        **nothing,
        standard_error=vector,
        num_steps=1,
        num_rewarded=0,
    )


@pytest.fixture(scope="module")
def pole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained_run(tmp_path_factory.mktemp("pole") / "run", "CartPole-v1", epsilon=1.0)


@pytest.fixture(scope="module")
def remembering(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained_run(tmp_path_factory.mktemp("lstm") / "run", "CartPole-v1", core="lstm")


def seen(*shape: int) -> np.ndarray:
    """Observations wild enough that not all ask for the same action."""
    return np.random.default_rng(0).normal(scale=3, size=(*shape, 4)).astype(np.float32)


# --- Stable-Baselines3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_stable_baselines_evaluates_it_like_one_of_its_own(pole: Run):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    policy = pole.policy(task(pole), gpi=False)
    env = monitor.Monitor(gymnasium.make("CartPole-v1"))
    env.reset(seed=3)
    scores, lengths = evaluation.evaluate_policy(
        policy, env, n_eval_episodes=3, return_episode_rewards=True
    )
    assert scores == lengths  # CartPole pays 1 a step
    assert lengths == by_hand(policy, seed=3, num_episodes=3)


def by_hand(policy: Any, seed: int, num_episodes: int) -> list[int]:
    env = gymnasium.make("CartPole-v1")
    env.reset(seed=seed)
    lengths = []
    for _ in range(num_episodes):
        observation, _ = env.reset()
        num_steps, ended = 0, False
        while not ended:
            action, state = policy.predict(observation, deterministic=True)
            assert state is None
            observation, _, terminated, truncated, _ = env.step(action)
            num_steps, ended = num_steps + 1, terminated or truncated
        lengths.append(num_steps)
    return lengths


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_stable_baselines_carries_the_memory_from_call_to_call(remembering: Run):
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    monitor = pytest.importorskip("stable_baselines3.common.monitor")
    policy = remembering.policy(task(remembering), gpi=False)
    states = []
    predict = policy.predict

    def noted(*given: Any, **named: Any) -> Any:
        states.append(named.get("state"))
        return predict(*given, **named)

    policy.predict = noted
    env = monitor.Monitor(gymnasium.make("CartPole-v1"))
    evaluation.evaluate_policy(policy, env, n_eval_episodes=1)
    assert states[0] is None
    assert all(memory.shape == (1, remembering.agent.psi.memory_size) for _, memory in states[1:])


# --- memory


def test_predicting_with_a_state_is_calling_step_by_step(remembering: Run):
    observations = seen(12, 3)
    called, predicting = (remembering.policy(task(remembering), gpi=False) for _ in range(2))
    state, actions = None, []
    for step, batch in enumerate(observations):
        starts = np.array([step == 5, False, False])  # the first begins anew there
        action, state = predicting.predict(batch, state, starts)
        assert np.array_equal(action, called(batch, starts if step else None))
        actions.append(action)
    assert len(np.unique(actions)) == 2
    # one at a time, the same
    alone = remembering.policy(task(remembering), gpi=False)
    singles = [alone(batch[1]) for batch in observations]
    assert singles == [action[1] for action in actions]
    assert all(type(action) is int for action in singles)


def test_the_memory_is_cleared_where_an_episode_starts(remembering: Run):
    policy = remembering.policy(task(remembering), gpi=False)
    observations = seen(4, 2)
    _, fresh = policy.predict(observations[-1])
    state = None
    for batch in observations[:-1]:
        _, state = policy.predict(batch, state)
    _, carried = policy.predict(observations[-1], state)
    _, forgotten = policy.predict(observations[-1], state, episode_start=[True, True])
    _, half = policy.predict(observations[-1], state, episode_start=[True, False])
    assert fresh is not None
    assert carried is not None
    assert forgotten is not None
    assert half is not None
    assert np.allclose(forgotten[1], fresh[1])
    assert not np.allclose(carried[1], fresh[1])
    assert np.allclose(half[1], [fresh[1][0], carried[1][1]])


def test_predicting_leaves_the_state_it_was_given_as_it_was(remembering: Run):
    policy = remembering.policy(task(remembering), gpi=False)
    _, state = policy.predict(seen(2))
    assert state is not None
    before = [part.copy() for part in state]
    _, later = policy.predict(seen(2), state)
    assert later is not None
    assert all(np.array_equal(a, b) for a, b in zip(state, before, strict=True))
    assert not np.array_equal(later[1], before[1])


def test_reset_clears_the_memory_and_so_does_another_number_of_environments(remembering: Run):
    policy = remembering.policy(task(remembering), gpi=False)
    batch = seen(3)

    def memory(given: np.ndarray) -> np.ndarray:
        policy(given)
        assert policy._actor is not None
        return policy._actor.memory()[1].copy()

    first = memory(batch)
    assert not np.allclose(memory(batch), first)
    policy.reset()
    assert np.allclose(memory(batch), first)
    assert np.allclose(memory(batch[:2]), first[:2], atol=1e-6)


# --- chance


def test_a_policy_that_need_not_be_deterministic_acts_at_random_as_in_training(pole: Run):
    policy = pole.policy(task(pole), gpi=False)  # its epsilon in training was 1
    batch = np.tile(seen(1), (200, 1))
    greedy, _ = policy.predict(batch, deterministic=True)
    assert len(np.unique(greedy)) == 1
    wild, _ = policy.predict(batch, deterministic=False)
    assert 60 < wild.sum() < 140
    assert len(np.unique(policy(batch))) == 1  # calling is greedy unless epsilon says otherwise
    assert 60 < pole.policy(task(pole), epsilon=1.0)(batch).sum() < 140


def test_different_tasks_are_different_policies(pole: Run):
    batch = seen(100)
    one, other = (pole.policy(task(pole, w), gpi=False)(batch) for w in ([1, 0, 0], [-1, 0, 0]))
    assert (one != other).any()
    with pytest.raises(UserError, match="has 2 features and this run has 3"):
        pole.policy(task(pole, [1.0, 0]))


# --- what goes in and what comes out


@pytest.mark.parametrize(
    "given", [np.zeros(3), np.zeros((2, 5)), np.zeros((1, 2, 4)), 3, None, "0000", ["a"] * 4, {}]
)
def test_what_is_no_observation_is_refused(pole: Run, given: Any):
    policy = pole.policy(task(pole))
    for ask in (policy, policy.predict):
        with pytest.raises(UserError, match=r"have shape \(4,\)"):
            ask(given)


def test_lists_and_other_kinds_of_numbers_are_observations(pole: Run):
    policy, batch = pole.policy(task(pole), gpi=False), seen(9)
    assert policy(batch.tolist()).tolist() == policy(batch.astype(np.float64)).tolist()
    assert policy([0, 0, 0, 0]) in (0, 1)


class Made(gymnasium.Env):
    """Any spaces at all; observations are samples."""

    def __init__(self, space: spaces.Space, actions: spaces.Space) -> None:
        self.observation_space, self.action_space = space, actions

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        assert self.action_space.contains(action), action
        return self.observation_space.sample(), 0.0, False, False, {}


Make = Callable[..., Run]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Make]:
    """A function: spaces of observations and actions -> a small run there."""

    def make(space: spaces.Space, actions: spaces.Space, **fields: Any) -> Run:
        gymnasium.register(
            "Made-v0", entry_point=lambda **_: Made(space, actions), disable_env_checker=True
        )
        return trained_run(tmp_path / "run", "Made-v0", **fields)

    yield make
    gymnasium.registry.pop("Made-v0", None)


def test_states_and_actions_that_do_not_start_at_zero(made: Make):
    run = made(spaces.Discrete(6, start=10), spaces.Discrete(3, start=5))
    policy = run.policy(task(run), gpi=False)
    actions = policy(np.arange(10, 16))
    assert set(actions) <= {5, 6, 7}
    assert [policy(state) for state in range(10, 16)] == actions.tolist()
    assert policy.predict(np.int64(12))[0] == actions[2]
    for wrong in (9, 16, 10.5, [10, 99], np.zeros((2, 2), int), "10", None, True):
        with pytest.raises(UserError, match="whole numbers from 10 to 15"):
            policy(wrong)


def test_continuous_actions_come_back_as_the_environment_takes_them(made: Make):
    box = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32))
    run = made(spaces.Box(-1, 1, (4,)), box, discretise=3)
    policy = run.policy(task(run), gpi=False)
    alone, batch = policy(seen()), policy(seen(5))
    assert (alone.shape, alone.dtype, batch.shape) == ((2,), np.float32, (5, 2))
    assert all(box.contains(action) for action in (alone, *batch))
    assert set(batch[:, 0]) <= {-1, 0, 1}
    assert set(batch[:, 1]) <= {0, 2, 4}


def test_observations_of_many_parts_are_taken_as_they_are(made: Make):
    space = spaces.Dict(
        where=spaces.Box(-1, 1, (2,)),
        door=spaces.Discrete(3, start=1),
        dials=spaces.MultiDiscrete([2, 4]),
        pair=spaces.Tuple([spaces.MultiBinary(2), spaces.Discrete(2)]),
        note=spaces.Text(4),
    )
    run = made(space, spaces.Discrete(4))
    policy = run.policy(task(run), gpi=False)
    space.seed(0)
    samples = [space.sample() for _ in range(6)]
    alone = [policy(sample) for sample in samples]
    assert all(type(action) is int and 0 <= action < 4 for action in alone)
    together: dict[str, Any] = {
        key: np.stack([s[key] for s in samples]) for key in ("where", "door", "dials")
    }
    together["pair"] = tuple(np.stack([s["pair"][i] for s in samples]) for i in (0, 1))
    together["note"] = [s["note"] for s in samples]
    assert policy(together).tolist() == alone
    assert policy.predict(samples[0])[0] == alone[0]
    wrong: list[tuple[Any, str]] = [
        ({**samples[0], "door": 0}, "whole numbers from 1 to 3"),
        ({**samples[0], "door": 4}, "whole numbers from 1 to 3"),
        ({**samples[0], "dials": [0, 4]}, "whole numbers from"),
        ({**samples[0], "where": np.zeros(3)}, r"shape \(2,\)"),
        ({k: v for k, v in samples[0].items() if k != "pair"}, "a part 'pair'"),
        ({**samples[0], "pair": (samples[0]["pair"][0],)}, "a part 1"),
        ({**together, "where": together["where"][:4]}, "do not fit together"),
        (np.zeros(12), "a part"),
        (7, "a part"),
    ]
    for given, words in wrong:
        with pytest.raises(UserError, match=words):
            policy(given)


def test_missions_of_minigrid_may_be_handed_in(tmp_path: Path):
    pytest.importorskip("minigrid")
    run = trained_run(tmp_path / "run", "MiniGrid-DoorKey-5x5-v0")
    policy = run.policy(task(run), gpi=False)
    env = gymnasium.make("MiniGrid-DoorKey-5x5-v0")
    observation, _ = env.reset(seed=0)
    for _ in range(5):
        action = policy(observation)
        assert env.action_space.contains(action)
        observation, *_ = env.step(action)


def test_images_are_taken_with_their_colours_last(made: Make):
    run = made(spaces.Box(0, 255, (12, 12, 3), np.uint8), spaces.Discrete(2), torso="minatar")
    image = np.random.default_rng(0).integers(256, size=(12, 12, 3), dtype=np.uint8)
    policy = run.policy(task(run))
    assert policy(image) in (0, 1)
    assert policy(image[None]).shape == (1,)
    with pytest.raises(UserError, match=r"shape \(12, 12, 3\)"):
        policy(image.transpose(2, 0, 1))
