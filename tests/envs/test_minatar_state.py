"""MinAtar's games go on where they were saved, and refuse what was never saved by them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from visr import pretraining
from visr.config import MinAtarConfig
from visr.envs.minatar import GAMES, MinAtarGames
from visr.errors import UserError
from visr.training import checkpoint
from visr.training.actor import Actor
from visr.training.loop import new_agent

pytest.importorskip("minatar")
SEAQUEST = "MinAtar/Seaquest-v1"


def games(id: str = SEAQUEST, num_envs: int = 4) -> MinAtarGames:
    env = MinAtarGames(MinAtarConfig(), id, num_envs)
    env.reset(seed=0)
    return env


def played(env: MinAtarGames, num_steps: int, seed: int) -> list[tuple[Any, ...]]:
    count = env.single_action_space.n  # pyright: ignore
    actions = np.random.default_rng(seed).integers(0, count, (num_steps, env.num_envs))
    return [env.step(some)[:4] for some in actions]


def saved(num_steps: int = 60) -> dict[str, np.ndarray]:
    env = games()
    played(env, num_steps, seed=1)
    return env.state()


@pytest.mark.parametrize("id", GAMES)
@pytest.mark.parametrize("num_steps", [0, 1, 333])
def test_every_restored_game_continues_bit_by_bit(id: str, num_steps: int):
    env, other = games(id), games(id)
    played(env, num_steps, seed=1)
    state = {k: torch.from_numpy(v.copy()).numpy() for k, v in env.state().items()}
    played(other, 7, seed=2)  # somewhere else
    other.load_state(state)
    for a, b in zip(played(env, 300, seed=3), played(other, 300, seed=3), strict=True):
        assert all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def test_a_saved_state_does_not_change_when_the_games_continue():
    env = games()
    state = env.state()
    before = {k: v.copy() for k, v in state.items()}
    played(env, 50, seed=1)
    assert all(np.array_equal(before[k], state[k]) for k in state)


def damaged(state: dict[str, np.ndarray], name: str, value: Any) -> dict[str, np.ndarray]:
    known = json.loads(state["games"].tobytes())
    known[2][name] = value
    return {**state, "games": np.frombuffer(json.dumps(known).encode(), np.uint8)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sub_x", 10),  # off the screen
        ("sub_x", 10**12),
        ("sub_x", None),
        ("sub_x", "5"),
        ("sub_x", [5]),
        ("e_fish", 3),
        ("e_fish", [[1]]),
        ("e_fish", [[[1, 2]]]),
        ("e_fish", [None]),
        ("last_action", 77),
        ("oxygen", float("nan")),
        ("e_fish", [[[[[[]]]]]]),
        ("__class__", 1),
        ("random", 1),
    ],
)
def test_an_invalid_saved_game_is_refused_and_changes_nothing(name: str, value: Any):
    env, state = games(), saved()
    before = env.state()
    with pytest.raises(UserError, match="damaged"):
        env.load_state(damaged(state, name, value))
    assert all(np.array_equal(v, before[k]) for k, v in env.state().items())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("drawn", lambda x: x + 1_000),  # would read beyond the generator's memory
        ("drawn", lambda x: -x - 1),
        ("random", lambda x: x - 2**33),
        ("random", lambda x: x[:, :600]),
        ("random", lambda x: x[:2]),
        ("random", lambda x: np.full(x.shape, np.nan)),
        ("age", lambda x: x - 10**18),
        ("age", lambda x: x + 10**18),
        ("ended", lambda x: x.astype(np.int64)),
        ("games", lambda x: np.frombuffer(b"[" * 100_000, np.uint8)),
        ("games", lambda x: x[:-5]),
        ("games", lambda x: x[:0]),
        ("games", lambda x: np.frombuffer(b"[1, 2, 3, 4]", np.uint8)),
        ("games", lambda x: np.frombuffer(b'{"a": 1}', np.uint8)),
    ],
)
def test_damaged_arrays_are_refused(name: str, change: Any):
    state = saved()
    with pytest.raises(UserError, match="damaged"):
        games().load_state({**state, name: change(state[name])})


def test_an_unknown_direction_in_a_saved_game_is_refused():
    env = games("MinAtar/Breakout-v1")
    known = json.loads(env.state()["games"].tobytes())
    known[0]["ball_dir"] = 9
    damage = np.frombuffer(json.dumps(known).encode(), np.uint8)
    with pytest.raises(UserError, match="damaged"):
        env.load_state({**env.state(), "games": damage})


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("observation", lambda x: x[:2]),
        ("observation", lambda x: x.float()),
        ("ended", lambda x: x.long()),
        ("previous_action", lambda x: x + 99),
    ],
)
def test_an_actor_refuses_state_of_other_shapes(name: str, change: Any, tiny: Any):
    config = tiny(env=SEAQUEST, num_envs=4)
    env = games()
    actor = Actor(config, env, new_agent(config), seed=0)
    state = actor.state()
    actor.load_state(state, 0)
    with pytest.raises(ValueError, match=name):
        actor.load_state({**state, name: change(state[name])}, 0)


def test_another_number_of_games_is_refused():
    with pytest.raises(UserError, match="num_envs"):
        games(num_envs=3).load_state(saved())


def test_another_game_is_refused():
    with pytest.raises(UserError, match="another game"):
        games("MinAtar/Asterix-v1").load_state(saved())


def test_games_continue_across_a_checkpoint(tmp_path: Path, tiny: Any):
    """So when checkpoints are written decides nothing, and an episode may be longer than their interval."""
    fields = {"env": SEAQUEST, "num_envs": 8, "num_steps": 2_560}
    often = pretraining.start(tmp_path / "often", tiny(checkpoint_every=640, **fields))
    once = pretraining.start(tmp_path / "once", tiny(checkpoint_every=2_560, **fields))
    (a, _), (b, _) = (checkpoint.load(checkpoint.newest(run)) for run in (often, once))
    weights = [name for name in a if name.startswith("learner.")]
    assert weights
    assert all(torch.equal(a[name], b[name]) for name in weights)
