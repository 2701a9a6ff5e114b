"""The numbered states of MiniGrid's tasks step as MiniGrid does."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parent.parent / "experiments/minigrid_states.py"


def test_the_table_of_doorkey_steps_as_minigrid_does():
    pytest.importorskip("minigrid")
    spec = importlib.util.spec_from_file_location("minigrid_states", FILE)
    assert spec is not None
    assert spec.loader is not None
    states = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(states)
    table, env = states.table(states.DoorKey.id), states._made(states.DoorKey.id)
    assert table.ends.any()
    assert (table.reward > 0).sum() == table.ends.sum()
    rng, now = np.random.default_rng(0), 0
    assert states._state(env) == table.states[now]
    for action in rng.integers(7, size=200):
        _, reward, terminated, _, _ = env.step(action)
        assert (reward > 0, terminated) == (table.reward[now, action], table.ends[now, action])
        now = table.after[now, action]
        assert states._state(env) == table.states[now]
        if terminated:
            break
