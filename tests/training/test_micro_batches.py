"""A batch in pieces teaches what the whole batch teaches."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor

from visr import config as configuration
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.errors import UserError
from visr.ops import sphere
from visr.training.learner import Learner
from visr.types import EnvSpec, Unroll

LENGTH, BATCH = 5, 6
SPEC = EnvSpec(Box(0, 255, (2, 20, 20), np.uint8), num_actions=3)


def new_agent(**fields: Any) -> Visr:
    torch.manual_seed(0)
    fields = {"torso": "nips", "core": "lstm", "n_step": 3, **fields}
    return Visr(configuration.replace(RunConfig(), **fields).agent, SPEC)


@pytest.fixture
def unroll() -> Unroll:
    """Every unroll has another number of steps that only reset: the first has nothing else."""
    torch.manual_seed(1)
    never = torch.zeros(LENGTH, BATCH, dtype=torch.bool)
    is_reset = never.clone()
    is_reset[:, 0] = is_reset[1:4, 1] = is_reset[2, 3] = True
    truncated, terminated = never.clone(), never.clone()
    truncated[1, 3] = terminated[3, 4] = True
    return Unroll(
        observation=torch.randint(256, (LENGTH + 1, BATCH, 2, 20, 20)).to(torch.uint8),
        action=torch.randint(3, (LENGTH, BATCH)),
        reward=torch.zeros(LENGTH, BATCH),
        terminated=terminated,
        truncated=truncated,
        is_reset=is_reset,
        w=sphere.uniform(BATCH, d=5),
        previous_action=torch.tensor([-1, 0, 1, 2, -1, 0]),
        memory=torch.randn(BATCH, 512),
    )


def update(
    agent: Visr, unroll: Unroll, micro_batch: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Gradients by name, and metrics."""
    agent = copy.deepcopy(agent)
    metrics = Learner(agent, total_updates=10, micro_batch=micro_batch).update(unroll)
    return {k: p.grad for k, p in agent.named_parameters() if p.grad is not None}, metrics


@pytest.mark.parametrize("micro_batch", [1, 2, 4, 5])
def test_micro_batches_give_the_gradients_of_the_whole_batch(unroll: Unroll, micro_batch: int):
    agent = new_agent()
    whole, metrics = update(agent, unroll, micro_batch=0)
    pieces, piecemeal = update(agent, unroll, micro_batch)
    assert whole.keys() == pieces.keys()
    assert {name.split(".")[0] for name in whole} == {"phi", "psi"}
    for name, gradient in whole.items():
        scale = gradient.abs().max().item()
        assert scale > 0, name
        torch.testing.assert_close(pieces[name], gradient, rtol=1e-3, atol=1e-5 * scale)
    for name in ("psi_loss", "intrinsic_reward"):
        torch.testing.assert_close(piecemeal[name], metrics[name])


def test_unweighted_means_of_micro_batches_would_differ(unroll: Unroll):
    # Were resets spread evenly, the tests above would prove little; 1 % is ten times their tolerance.
    agent = new_agent()
    whole = agent.losses(unroll)
    pieces = [agent.losses(unroll.part(i, i + 2)) for i in range(0, BATCH, 2)]
    mean = sum(piece.psi.item() for piece in pieces) / len(pieces)
    assert abs(mean - whole.psi.item()) > 0.01 * whole.psi.item()


@pytest.mark.parametrize("micro_batch", [BATCH, BATCH + 1, 100])
def test_a_micro_batch_as_large_as_the_batch_changes_nothing(unroll: Unroll, micro_batch: int):
    agent = new_agent()
    whole, pieces = (update(agent, unroll, size)[0] for size in (0, micro_batch))
    assert all(torch.equal(whole[name], pieces[name]) for name in whole)


def test_a_batch_of_steps_that_only_reset_has_zero_gradients(unroll: Unroll):
    idle = unroll._replace(is_reset=torch.ones_like(unroll.is_reset))
    for micro_batch in (0, 2):
        gradients, metrics = update(new_agent(), idle, micro_batch)
        assert not any(gradient.any() for gradient in gradients.values())
        assert metrics["psi_loss"] == 0


def test_a_part_of_unrolls_keeps_their_values(unroll: Unroll):
    part = unroll.part(2, 5)
    assert part.num_unrolls == 3
    assert torch.equal(part.previous_actions, unroll.previous_actions[:, 2:5])
    for name in ("w", "memory", "previous_action"):
        assert torch.equal(getattr(part, name), getattr(unroll, name)[2:5]), name
    assert torch.equal(part.observation, unroll.observation[:, 2:5])


@pytest.mark.parametrize(
    "fields",
    [
        {"centred_features": True},
        {"objective": "laplacian"},
        {"bonus": "particles"},
        {"task_distribution": "visited"},
    ],
)
def test_some_losses_need_the_whole_batch(fields: dict[str, Any]):
    with pytest.raises(UserError, match=f"micro_batch = 4 does not go with {next(iter(fields))}"):
        configuration.replace(RunConfig(), **fields, micro_batch=4)
