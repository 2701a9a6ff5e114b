"""A batch of unrolls, and small agents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gymnasium.spaces import Discrete

from visr import agents
from visr import config as configuration
from visr.agents.extensions.visr_plus import VisrPlus
from visr.agents.visr import Visr
from visr.config import RunConfig
from visr.ops import sphere
from visr.types import EnvSpec, Unroll

SPEC = EnvSpec(Discrete(9), num_actions=4)
NewAgent = Callable[..., Visr]
NewVisrPlus = Callable[..., VisrPlus]


@pytest.fixture
def new_agent() -> NewAgent:
    """VISR for 9 states and 4 actions, with these fields of the configuration."""

    def make(**fields: Any) -> Visr:
        torch.manual_seed(0)
        fields = {"hidden_sizes": (16, 16), "target_period": 2, **fields}
        return agents.new_visr(configuration.replace(RunConfig(), **fields).agent, SPEC)

    return make


@pytest.fixture
def new_visr_plus(new_agent: NewAgent) -> NewVisrPlus:
    """The same with fields that go beyond the paper."""

    def make(**fields: Any) -> VisrPlus:
        agent = new_agent(**fields)
        assert isinstance(agent, VisrPlus)
        return agent

    return make


@pytest.fixture
def unroll() -> Unroll:
    torch.manual_seed(1)
    length, batch = 6, 4
    return Unroll(
        observation=torch.randint(9, (length + 1, batch)),
        action=torch.randint(4, (length, batch)),
        reward=torch.randn(length, batch),
        terminated=torch.zeros(length, batch, dtype=torch.bool),
        truncated=torch.zeros(length, batch, dtype=torch.bool),
        is_reset=torch.zeros(length, batch, dtype=torch.bool),
        w=sphere.uniform(batch, d=5),
        previous_action=torch.full((batch,), -1),
        memory=torch.empty(batch, 0),
    )
