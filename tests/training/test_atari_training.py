"""Pre-training on Atari: ends of episodes and lives, recurrent memory, rewards, resuming."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.reference import n_step_targets
from visr import config as configuration
from visr import envs, pretraining
from visr.config import RunConfig, presets
from visr.storage.run_dir import RunDir
from visr.training import checkpoint
from visr.training.actor import Actor
from visr.training.actor_pool import LocalActorPool
from visr.training.loop import Loop, new_agent
from visr.training.online_evaluation import OnlineEvaluation
from visr.types import Unroll

pytest.importorskip("ale_py")

BREAKOUT, PONG = "ALE/Breakout-v5", "ALE/Pong-v5"


def small(**fields: Any) -> RunConfig:
    """Two games that pre-train beside one with rewards; an update uses two unrolls of 8 steps."""
    common = {"env": BREAKOUT, "num_envs": 3, "num_rewarded_envs": 1, "rewarded_window": 32}
    common |= {"batch_size": 2, "unroll_length": 8, "num_threads": 1, "num_steps": 96}
    common |= {"max_episode_frames": 48, "log_every": 16, "checkpoint_every": 32}
    return configuration.replace(presets.get("atari-small"), **{**common, **fields})


class Events(NamedTuple):
    """What the emulator reported for every step, [T, B]."""

    terminated: Tensor
    truncated: Tensor
    life_lost: Tensor
    reward: Tensor


def recorded_events(env: Any, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A list that receives (terminated, truncated, life_lost, reward) of all later steps."""
    seen_events: list[tuple[Any, ...]] = []
    original = env.step

    def step(actions: Any) -> Any:
        result = original(actions)
        _, reward, terminated, truncated, info = result
        seen_events.append(
            tuple(x.copy() for x in (terminated, truncated, info["life_lost"], reward))
        )
        return result

    monkeypatch.setattr(env, "step", step)
    return seen_events


def events(seen_events: list[tuple[Any, ...]]) -> Events:
    return Events(*(torch.from_numpy(np.stack(x)) for x in zip(*seen_events, strict=True)))


class Record(NamedTuple):
    """Consecutive unrolls of one actor, and the emulator's events."""

    actor: Actor
    unrolls: list[Unroll]
    events: Events


def record(num_unrolls: int, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Record:
    """Random actions in two games, with an LSTM."""
    fields = {"core": "lstm", "num_envs": 2, "num_rewarded_envs": 0, "unroll_length": 40, **fields}
    config = small(epsilon=1.0, gpi=False, max_episode_frames=18_000, **fields)
    env = envs.make_vec(config, 2)
    actor = Actor(config, env, new_agent(config), seed=0)
    seen_events = recorded_events(env, monkeypatch)
    unrolls = [actor.collect() for _ in range(num_unrolls)]
    return Record(actor, unrolls, events(seen_events))


def along(unrolls: list[Unroll], field: str) -> Tensor:
    """A field of all unrolls as one sequence."""
    return torch.cat([getattr(unroll, field) for unroll in unrolls])


@pytest.fixture(scope="module")
def breakout() -> Record:
    """320 random steps of Breakout: lives are lost, and episodes end."""
    return record(8, pytest.MonkeyPatch(), zero_discount_on_life_loss=True)


def targets(unroll: Unroll, n: int) -> Tensor:
    """With c = 1, psi = 8 and gamma = .5 a one-step target is 1 + 4 = 5, and 1 where nothing follows."""
    length, batch = unroll.action.shape
    scalar = unroll._replace(w=torch.ones(batch, 1))
    psi, cumulant = torch.full((length + 1, batch, 6, 1), 8.0), torch.ones(length, batch, 1)
    return n_step_targets(psi, cumulant, scalar, gamma=0.5, n=n).squeeze(-1)


# --- ends of episodes and lives


def test_targets_do_not_bootstrap_from_a_lost_life_or_an_end(breakout: Record):
    _, unrolls, truth = breakout
    assert truth.life_lost.sum() >= 4
    assert truth.terminated.sum() >= 1
    assert not (truth.life_lost & truth.terminated).any()
    ends = truth.terminated | truth.life_lost
    one_step = torch.cat([targets(unroll, n=1) for unroll in unrolls])
    assert torch.equal(one_step, torch.where(ends, 1.0, 5.0))


def test_targets_can_bootstrap_from_a_lost_life(monkeypatch: pytest.MonkeyPatch):
    _, unrolls, truth = record(3, monkeypatch, core="none", zero_discount_on_life_loss=False)
    assert truth.life_lost.any()
    one_step = torch.cat([targets(unroll, n=1) for unroll in unrolls])
    assert torch.equal(one_step, torch.where(truth.terminated, 1.0, 5.0))


def test_two_step_returns_stop_at_a_lost_life(breakout: Record):
    # G_t = 1 where t ends; 1 + .5 * 1 = 1.5 where t + 1 does; else 1 + .5 (1 + .5 * 8) = 3.5, but at an
    # unroll's end 1 + .5 * 8 = 5
    _, unrolls, truth = breakout
    ends = (truth.terminated | truth.life_lost).split(40)
    for unroll, ended in zip(unrolls, ends, strict=True):
        expected = torch.full((40, 2), 3.5)
        expected[-1] = 5.0
        expected[:-1][ended[1:]] = 1.5
        expected[ended] = 1.0
        assert torch.equal(targets(unroll, n=2), expected)


@pytest.mark.parametrize("env", [BREAKOUT, PONG])
@pytest.mark.parametrize("n", [1, 3])
def test_a_time_out_bootstraps_and_stops_returns(env: str, n: int, monkeypatch: pytest.MonkeyPatch):
    # 52 frames are 13 steps, and one to reset: time-outs at t = 12, 26 and, in the next unroll, 40 = 0
    fields = {"max_episode_frames": 52, "num_envs": 2, "num_rewarded_envs": 0}
    config = small(env=env, epsilon=1.0, gpi=False, unroll_length=40, **fields)
    games = envs.make_vec(config, 2)
    actor = Actor(config, games, new_agent(config), seed=0)
    truth = recorded_events(games, monkeypatch)
    unroll = actor.collect()
    timed_out = torch.zeros(40, 2, dtype=torch.bool)
    timed_out[12] = timed_out[26] = True
    assert torch.equal(events(truth).truncated, timed_out)
    assert torch.equal(unroll.truncated, timed_out)
    assert not unroll.terminated.any()
    assert torch.equal(unroll.is_reset, timed_out.roll(1, dims=0))
    # n = 3: before a cut 1 + .5 (1 + .5 (1 + .5 * 8)) = 2.75, two steps before it, too; then 3.5, then 5
    expected = torch.full((40, 2), 5.0 if n == 1 else 2.75)
    if n == 3:
        for last in (12, 26, 39):
            expected[last - 1], expected[last] = 3.5, 5.0
    happened = ~unroll.is_reset
    assert torch.equal(targets(unroll, n)[happened], expected[happened])


def test_values_after_a_time_out_do_not_change_earlier_targets():
    config = small(max_episode_frames=52, num_envs=2, num_rewarded_envs=0, unroll_length=40)
    games = envs.make_vec(config, 2)
    unroll = Actor(config, games, new_agent(config), seed=0).collect()
    psi, cumulant = torch.randn(41, 2, 4, 5), torch.randn(40, 2, 5)
    before = n_step_targets(psi, cumulant, unroll, 0.99, n=5)
    psi[14:] += 1  # observation[13] is the last of the first episode
    cumulant[13:] += 1
    after = n_step_targets(psi, cumulant, unroll, 0.99, n=5)
    assert torch.equal(before[:13], after[:13])
    assert (before[14:] != after[14:]).all()


# --- memory


def test_steps_that_only_reset_follow_ends_of_episodes_and_nothing_else(breakout: Record):
    _, unrolls, truth = breakout
    is_reset = along(unrolls, "is_reset")
    assert not is_reset[0].any()
    assert torch.equal(is_reset[1:], (truth.terminated | truth.truncated)[:-1])


def test_each_unroll_continues_the_one_before(breakout: Record):
    _, unrolls, _ = breakout
    assert unrolls[0].previous_action.tolist() == [-1, -1]
    for earlier, later in pairwise(unrolls):
        assert torch.equal(earlier.observation[-1], later.observation[0])
        assert torch.equal(earlier.previous_actions[-1], later.previous_actions[0])
        assert torch.equal(later.previous_actions[0], later.previous_action)
    actions, is_reset = along(unrolls, "action"), along(unrolls, "is_reset")
    led = torch.cat([unroll.previous_actions[1:] for unroll in unrolls])
    assert torch.equal(led == -1, is_reset)  # a lost life begins no episode
    assert torch.equal(led[~is_reset], actions[~is_reset])


@torch.inference_mode()
def test_recurrent_memory_is_cleared_exactly_where_episodes_begin(breakout: Record):
    # The memory equals that of an LSTM that has seen this episode only, including its lost lives.
    actor, unrolls, truth = breakout
    seen = torch.cat([unroll.observation[:-1] for unroll in unrolls])
    led = torch.cat([unroll.previous_actions[:-1] for unroll in unrolls])
    begins = led == -1
    across_lives = across_games = 0
    for k, unroll in list(enumerate(unrolls))[1:]:
        for b in range(2):
            now, start = 40 * k, int(begins[: 40 * k, b].nonzero().max())
            none = torch.zeros(1, actor.psi.memory_size)
            _, memory = actor.psi.trunk(seen[start:now, b : b + 1], led[start:now, b : b + 1], none)
            torch.testing.assert_close(unroll.memory[b : b + 1], memory, rtol=1e-3, atol=1e-4)
            across_lives += int(truth.life_lost[start : now - 1, b].any())
            across_games += start > 0
    assert across_lives >= 3
    assert across_games >= 1


@torch.inference_mode()
def test_the_learner_computes_the_same_memory_as_the_actor(breakout: Record):
    # From an unroll's stored memory and previous actions, the network computes the next stored memory.
    actor, unrolls, _ = breakout
    for earlier, later in pairwise(unrolls):
        _, memory = actor.psi.trunk(
            earlier.observation[:-1], earlier.previous_actions[:-1], earlier.memory
        )
        torch.testing.assert_close(later.memory, memory, rtol=1e-3, atol=1e-4)
        assert later.memory.abs().max() > 0


# --- rewards


def test_online_returns_are_those_of_whole_episodes(monkeypatch: pytest.MonkeyPatch):
    # Episodes of 100 steps in which lives are lost: one return per episode, not per life.
    config = small(unroll_length=40, max_episode_frames=400, epsilon=1.0, gpi=False)
    agent = new_agent(config)
    online = OnlineEvaluation(config, agent)
    seen_events = recorded_events(online.actor.env, monkeypatch)
    for _ in range(6):
        online.play(agent)
    truth = events(seen_events)
    assert truth.life_lost.any()
    ends = (truth.terminated | truth.truncated).nonzero()[:, 0].tolist()
    assert len(ends) == 2
    expected = [part.sum().item() for part in truth.reward.tensor_split([e + 1 for e in ends])[:-1]]
    row = online.row()
    assert row["num_episodes"] == 2
    assert row["mean_return"] == pytest.approx(sum(expected) / 2)
    assert sum(expected) > 0


def run_to_the_end(loop: Loop) -> dict[str, Tensor]:
    for _ in loop.rounds():
        pass
    state = loop.state()[0]
    loop.close()
    return state


def assert_same_state(a: dict[str, Tensor], b: dict[str, Tensor]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        assert torch.equal(a[name], b[name]), name


@pytest.fixture(scope="module")
def finished() -> dict[str, Tensor]:
    """The state after a whole run with a rewarded environment."""
    return run_to_the_end(Loop(small(num_steps=64)))


def test_only_rewarded_environments_use_rewards(finished: dict[str, Tensor]):
    blind = Loop(small(num_steps=64))
    assert blind.online is not None
    (pool,) = blind.actor_pools
    assert isinstance(pool, LocalActorPool)
    num_poisoned = 0
    with pytest.MonkeyPatch.context() as patch:
        for actor in pool.actors.values():
            original = actor.env.step

            def step(actions: Any, original: Any = original) -> Any:
                nonlocal num_poisoned
                num_poisoned += 1
                observation, reward, *rest = original(actions)
                return observation, np.full_like(reward, np.nan), *rest

            patch.setattr(actor.env, "step", step)
        poisoned = run_to_the_end(blind)
    assert num_poisoned >= 32
    assert int(poisoned["online.num_steps"]) >= 24
    for name, tensor in finished.items():
        if name != "waiting.reward":
            assert torch.equal(tensor, poisoned[name]), name


def test_the_learner_uses_no_steps_of_rewarded_environments(finished: dict[str, Tensor]):
    without = run_to_the_end(Loop(small(num_steps=64, num_envs=2, num_rewarded_envs=0)))
    assert any(name.startswith("online.") for name in finished)
    assert_same_state({k: v for k, v in finished.items() if not k.startswith("online.")}, without)


# --- resuming


def test_a_loop_with_an_lstm_continues_from_its_state_as_if_never_stopped():
    fields = {"core": "lstm", "centred_features": False, "channels_last": False}
    config = small(num_steps=64, **fields)
    whole, resumed = Loop(config), Loop(config)
    rounds = whole.rounds()
    for _ in range(3):
        next(rounds)
    assert 0 < whole.learner.num_updates < 4
    whole.reset_unsaveable_envs()
    tensors, counts = whole.state()
    resumed.load_state({k: v.clone() for k, v in tensors.items()}, counts)
    again = run_to_the_end(resumed)
    for _ in rounds:
        pass
    assert_same_state(whole.state()[0], again)


def test_a_run_without_its_newest_checkpoint_resumes_to_the_same_bits(tmp_path: Path):
    # 6 updates of 16 steps, a checkpoint after every second; the last one is deleted.
    run = pretraining.start(tmp_path / "run", small())
    files = (run.metrics, run.online)
    before, (expected, counts) = [f.read_bytes() for f in files], newest(run)
    assert counts["num_updates"] == 6
    assert before[0].count(b"\n") == 1 + 6  # one update per round
    assert before[1].count(b"\n") >= 3  # episodes of 12 steps have ended
    checkpoint.newest(run).unlink()
    assert 0 < newest(run)[1]["num_updates"] < 6
    pretraining.resume(run.path)
    actual, again = newest(run)
    assert again == counts
    assert_same_state(actual, expected)
    assert [f.read_bytes() for f in files] == before


def newest(run: RunDir) -> tuple[dict[str, Tensor], dict[str, int]]:
    return checkpoint.load(checkpoint.newest(run))


def test_the_number_of_processes_changes_nothing():
    # bfloat16 and an LSTM: a process with other settings would compute other memories.
    fields = {"core": "lstm", "precision": "bfloat16", "num_actor_groups": 2, "num_envs": 2}
    config = small(num_rewarded_envs=0, num_steps=32, **fields)
    alone, together = (run_to_the_end(Loop(config, num_processes=n)) for n in (1, 2))
    assert_same_state(alone, together)
