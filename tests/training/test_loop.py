"""The loop is deterministic, and continues from a saved state."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from visr.errors import UserError
from visr.training.actor import Actor
from visr.training.actor_pool import LocalActorPool, group_sizes
from visr.training.learner import concatenate
from visr.training.loop import Loop, total_updates
from visr.training.subprocess_actor_pool import SubprocessActorPool


def readout(psi: Any) -> Any:
    """The last layer of the grid's psi."""
    return psi.readout


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


@pytest.mark.parametrize(
    ("num_processes", "num_groups", "num_pools"), [(2, 4, 2), (3, 4, 3), (2, 1, 1)]
)
def test_the_number_of_processes_changes_nothing(
    tiny: Any, num_processes: int, num_groups: int, num_pools: int
):
    config = tiny(num_steps=5_120, num_actor_groups=num_groups)
    alone, together = Loop(config, num_processes=1), Loop(config, num_processes)
    assert len(together.actor_pools) == num_pools
    assert_same_state(run_to_the_end(alone), run_to_the_end(together))


def test_another_seed_gives_other_weights(tiny: Any):
    first, second = (run_to_the_end(Loop(tiny(num_steps=1_280, seed=s))) for s in (0, 1))
    assert not torch.equal(
        first["learner.agent.psi.readout.weight"], second["learner.agent.psi.readout.weight"]
    )


@pytest.mark.parametrize("fields", [{}, {"num_envs": 20}, {"max_episode_steps": 7}])
def test_a_loop_continues_from_its_state_as_if_never_stopped(tiny: Any, fields: dict[str, Any]):
    config = tiny(num_steps=10_240, **fields)
    whole, stopped, resumed = Loop(config), Loop(config), Loop(config)
    expected = run_to_the_end(whole)
    rounds = stopped.rounds()
    for _ in range(3):
        next(rounds)
    tensors, counts = stopped.state()
    resumed.load_state({k: v.clone() for k, v in tensors.items()}, counts)
    assert_same_state(run_to_the_end(resumed), expected)


def test_every_unroll_is_used_once_and_in_order(tiny: Any, monkeypatch: pytest.MonkeyPatch):
    # 20 environments, batches of 32: unrolls wait until a batch is full, none is lost or doubled.
    loop = Loop(tiny(num_steps=6_400, num_envs=20, num_actor_groups=2))
    collected, learnt = [], []
    for actor in actors_of(loop):
        monkeypatch.setattr(actor, "collect", _noting(actor.collect, collected))
    monkeypatch.setattr(loop.learner, "update", _noting(loop.learner.update, learnt, given=True))
    for _ in loop.rounds():
        pass
    assert len(learnt) == 5 == total_updates(loop.config)
    sent = torch.cat([unroll.w for unroll in collected])
    seen = torch.cat([unroll.w for unroll in learnt])
    assert torch.equal(sent[: len(seen)], seen)


def _noting(function: Any, log: list[Any], given: bool = False) -> Any:
    def noted(*args: Any) -> Any:
        result = function(*args)
        log.append(args[0] if given else result)
        return result

    return noted


def test_unrolls_follow_the_transitions_of_the_grid(tiny: Any):
    loop = Loop(tiny(max_episode_steps=7))
    actor = actors_of(loop)[0]
    unrolls = [actor.collect() for _ in range(2)]
    table = torch.from_numpy(actor.env.unwrapped.world.transitions)  # pyright: ignore
    for u in unrolls:
        moved = table[u.observation[:-1], u.action]
        assert torch.equal(moved[~u.is_reset], u.observation[1:][~u.is_reset])
        torch.testing.assert_close(u.w.norm(dim=-1), torch.ones(len(u.w)))
        # A time-out is followed by a step that only resets, and by nothing else.
        assert torch.equal(u.is_reset[1:], u.truncated[:-1])
        assert not u.terminated.any()
    assert torch.equal(unrolls[0].observation[-1], unrolls[1].observation[0])
    assert torch.equal(unrolls[0].truncated[-1], unrolls[1].is_reset[0])


def test_actors_use_the_weights_of_the_rounds_start(tiny: Any, monkeypatch: pytest.MonkeyPatch):
    loop = Loop(tiny())
    actor = actors_of(loop)[0]
    acted: list[Tensor] = []

    def collect() -> Any:
        acted.append(readout(actor.psi).weight.clone())
        return original()

    original = actor.collect
    monkeypatch.setattr(actor, "collect", collect)
    for _ in range(3):
        at_the_start = readout(loop.agent.psi).weight.clone()
        next(loop.rounds())
        assert torch.equal(acted[-1], at_the_start)
    # The learner did move on meanwhile.
    assert not torch.equal(readout(loop.agent.psi).weight, acted[-1])


def test_gpi_draws_new_neighbours_at_every_step(tiny: Any, monkeypatch: pytest.MonkeyPatch):
    actor = actors_of(Loop(tiny()))[0]
    consulted: list[Tensor] = []
    original = actor.psi.gpi_values

    def gpi_values(observation: Tensor, policies: Tensor, readout: Any) -> Tensor:
        consulted.append(policies)
        return original(observation, policies, readout)

    monkeypatch.setattr(actor.psi, "gpi_values", gpi_values)
    unroll = actor.collect()
    assert len(consulted) == 40
    for earlier, later in pairwise(consulted):
        assert torch.equal(earlier[:, 0], unroll.w)
        assert (earlier[:, 1:] != later[:, 1:]).any(dim=-1).all()


def test_epsilon_one_acts_uniformly_and_zero_greedily(tiny: Any):
    random = actors_of(Loop(tiny(epsilon=1.0)))[0].collect()
    counts = torch.bincount(random.action.flatten(), minlength=4) / random.action.numel()
    assert counts.min() > 0.2
    loop = Loop(tiny(epsilon=0.0, gpi=False))
    unroll = actors_of(loop)[0].collect()
    with torch.inference_mode():
        psi = loop.agent.psi(unroll.observation[:-1], unroll.w)
        q = (psi @ unroll.w.unsqueeze(-1)).squeeze(-1)
    assert torch.equal(q.argmax(-1), unroll.action)


def test_groups_have_equally_many_environments(tiny: Any):
    assert group_sizes(tiny(num_envs=100, num_actor_groups=3)) == [34, 33, 33]
    assert group_sizes(tiny(num_envs=4, num_actor_groups=4)) == [1, 1, 1, 1]


def test_an_acting_process_that_dies_is_reported(tiny: Any):
    loop = Loop(tiny(), num_processes=2)
    child = loop.actor_pools[1]
    assert isinstance(child, SubprocessActorPool)
    child.process.kill()
    with pytest.raises(UserError, match="ended unexpectedly"):
        next(loop.rounds())
    loop.close()


def actors_of(loop: Loop) -> list[Actor]:
    (pool,) = loop.actor_pools
    assert isinstance(pool, LocalActorPool)
    return list(pool.actors.values())


def test_parts_of_concatenated_unrolls_equal_the_originals(tiny: Any):
    unrolls = [actor.collect() for actor in actors_of(Loop(tiny()))]
    whole = concatenate(unrolls)
    assert whole is not None
    for mine, theirs in zip(whole.part(16, 32), unrolls[1], strict=True):
        assert torch.equal(mine, theirs)
