"""Agents with additions to the paper train, are saved and resume like the paper's agent."""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import Any

import pytest
import torch

from visr.training.loop import Loop

ADDITIONS: list[dict[str, Any]] = [
    {"bonus": "rnd", "bonus_num_steps": 10_000},
    {"bonus": "particles", "task_distribution": "visited", "n_step": 3},
    {"bonus": "rnd", "objective": "laplacian", "num_features": 64},
    {"objective": "metra", "target_period": 3},
    {"cumulant": "current", "value_weight": 4.0, "phi_num_steps": 5_000},
]


def checkpointed(loop: Loop) -> tuple[dict[str, torch.Tensor], dict[str, int]]:
    tensors, counts = loop.state()
    return {name: tensor.clone() for name, tensor in tensors.items()}, counts


@pytest.mark.parametrize("fields", ADDITIONS, ids=str)
def test_a_loop_continues_from_its_state_as_if_never_stopped(fields: dict[str, Any], tiny: Any):
    config = tiny(hidden_sizes=(16, 16), **fields)
    with contextlib.closing(Loop(config)) as loop, contextlib.closing(Loop(config)) as other:
        list(islice(loop.rounds(), 4))
        other.load_state(*checkpointed(loop))
        for each in (loop, other):
            list(islice(each.rounds(), 4))
        (ours, counts), (theirs, other_counts) = loop.state(), other.state()
    assert counts == other_counts
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("fields", ADDITIONS, ids=str)
def test_each_addition_changes_the_weights(fields: dict[str, Any], tiny: Any):
    plain = {"num_features": fields.get("num_features", 5), "hidden_sizes": (16, 16)}
    after = []
    for config in (tiny(**plain), tiny(**{**plain, **fields})):
        with contextlib.closing(Loop(config)) as loop:
            list(islice(loop.rounds(), 4))
            after.append(loop.agent.psi.state_dict())
    assert any(not torch.equal(after[0][name], after[1][name]) for name in after[0])


def test_a_bonus_falls_to_zero_during_a_run(tiny: Any):
    config = tiny(bonus="particles", bonus_scale=0.5, bonus_num_steps=10_240)
    with contextlib.closing(Loop(config)) as loop:
        reports = [report for r in loop.rounds() for report in r.metrics]
    bonuses = [float(report["bonus"]) for report in reports]
    assert bonuses[0] == pytest.approx(0.5, rel=1e-3)
    assert bonuses[4] == pytest.approx(0.25, rel=0.3)
    assert bonuses[8:] == [0.0] * len(bonuses[8:])
