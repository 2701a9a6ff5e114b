"""Our Adam against torch's."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn, optim

from visr.ops.adam import Adam


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 3, 2), nn.Flatten(), nn.Linear(12, 5), nn.Linear(5, 1))


def groups(net: Any) -> list[dict[str, Any]]:
    fast = {"params": list(net[0].parameters()), "lr": 1e-2, "eps": 1e-5, "initial_lr": 1e-2}
    return [fast, {"params": [*net[2].parameters(), *net[3].parameters()]}]


def moments(adam: optim.Adam) -> dict[str, torch.Tensor]:
    """torch's state in the form of ours."""
    kept = adam.state_dict()["state"].items()
    return {f"{k}.{name}": tensor for k, state in kept for name, tensor in state.items()}


def learn(net: Any, adam: Any, steps: range) -> None:
    """Some steps; the last layer has no gradient in the first ones, and the learning rate falls."""
    for step in steps:
        rows = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(step))
        hidden = net[:3](rows)
        adam.zero_grad()
        (hidden.square().mean() if step < 3 else net[3](hidden).square().mean()).backward()
        adam.param_groups[0]["lr"] = 1e-2 / (step + 1)
        adam.step()


def test_it_changes_weights_as_torchs_fused_adam_does_bit_for_bit():
    ours, theirs = network(), network()
    our_adam, their_adam = Adam(groups(ours)), optim.Adam(groups(theirs), fused=True)
    learn(ours, our_adam, range(8))
    learn(theirs, their_adam, range(8))
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(a, b)
    mine, other = our_adam.moments(), moments(their_adam)
    assert mine.keys() == other.keys()
    assert all(torch.equal(mine[name], other[name]) for name in mine)


def test_it_continues_from_torchs_state_as_from_its_own():
    whole, theirs = network(), network()
    learn(whole, Adam(groups(whole)), range(8))
    their_adam = optim.Adam(groups(theirs), fused=True)
    learn(theirs, their_adam, range(5))
    again = copy.deepcopy(theirs)
    adam = Adam(groups(again))
    adam.load_moments(moments(their_adam))
    learn(again, adam, range(5, 8))
    for a, b in zip(whole.parameters(), again.parameters(), strict=True):
        assert torch.equal(a, b)
