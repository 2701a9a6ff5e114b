"""The reward model r(s, a, s')."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.optim import Adam

from visr.finetuning.relabelling import RewardModel
from visr.types import EnvSpec

SPACES = {
    "small images": spaces.Box(0, 1, (4, 10, 10), np.uint8),
    "tiny images": spaces.Box(0, 255, (1, 2, 5), np.uint8),
    "screens": spaces.Box(0, 255, (4, 84, 84), np.uint8),
    "vectors": spaces.Box(-1, 1, (6,), np.float32),
    "states": spaces.Discrete(7),
}


@pytest.mark.parametrize("kind", SPACES)
def test_the_model_gives_one_reward_per_step_for_any_observation(kind: str):
    space, shape = SPACES[kind], (3, 2)
    model = RewardModel(EnvSpec(space, 4))
    before, reached = (
        torch.as_tensor(np.stack([space.sample() for _ in range(6)])).unflatten(0, shape)
        for _ in range(2)
    )
    assert model(before, torch.zeros(shape, dtype=torch.int64), reached).shape == shape


def collected(
    count: int, column: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Boards with one object, in every other column; the reward is 1 where it disappears."""
    random = torch.Generator().manual_seed(seed)
    before = torch.zeros(count, 1, 10, 10, dtype=torch.uint8)
    row = torch.randint(10, (count,), generator=random)
    columns = 2 * torch.randint(5, (count,), generator=random) + column
    before[torch.arange(count), 0, row, columns] = 1
    gone = torch.rand(count, generator=random) < 0.5
    return before, before.masked_fill(gone.view(-1, 1, 1, 1), 0), gone.float()


def test_a_reward_learnt_in_one_place_generalises_to_others():
    torch.manual_seed(0)
    model = RewardModel(EnvSpec(spaces.Box(0, 1, (1, 10, 10), np.uint8), 2))
    optimiser = Adam(model.parameters(), lr=1e-3)
    before, reached, reward = collected(400, 0, 0)
    action = torch.zeros(400, dtype=torch.int64)
    for _ in range(150):
        optimiser.zero_grad()
        (model(before, action, reached) - reward).square().mean().backward()
        optimiser.step()
    before, reached, reward = collected(400, 1, 1)  # the columns between
    with torch.no_grad():
        predicted = model(before, action, reached)
    assert float((predicted - reward).square().mean() / reward.var()) < 0.1
