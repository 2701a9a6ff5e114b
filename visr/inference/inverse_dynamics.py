"""Which action led from one state to the next, learnt from recorded steps: for demonstrations of states."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from visr.inference.recording import Recording

LEAST_ACCURACY = 0.9
"""On held-out steps; a model that is right less often infers no actions."""
_MOST_STEPS = 20_000
_HELD_OUT = 1_000
_LEAST_STEPS = 2_000
_UPDATES, _BATCH, _LEARNING_RATE, _WIDTH = 800, 256, 2e-3, 128


@dataclass(frozen=True, eq=False)
class InferredActions:
    """The likeliest action of every step of a trajectory."""

    actions: NDArray[np.int64]
    """[T - 1]"""
    accuracy: float
    """The share of held-out recorded steps whose action is found."""


def infer_actions(states: NDArray, recorded: Recording, seed: int = 0) -> InferredActions | None:
    """The actions between consecutive states [T, n]; None if recorded steps do not tell them.

    A small network classifies (s, s' - s), on at most 20,000 recorded steps.
    """
    count = len(recorded.action)
    if recorded.before.ndim != 2 or len(states) < 2 or count < _LEAST_STEPS:
        return None
    order = np.random.default_rng(seed).permutation(count)
    held_out, used = order[:_HELD_OUT], order[_HELD_OUT : _HELD_OUT + _MOST_STEPS]
    before = recorded.before[used].astype(np.float64)
    change = recorded.reached[used].astype(np.float64) - before
    mean, scale = before.mean(axis=0), _scale(before)
    change_scale = _scale(change)

    def read(start: NDArray, end: NDArray) -> Tensor:
        start = start.astype(np.float64)
        pair = [(start - mean) / scale, (end.astype(np.float64) - start) / change_scale]
        return torch.as_tensor(np.concatenate(pair, axis=1), dtype=torch.float32)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = _classifier(
            read(recorded.before[used], recorded.reached[used]),
            torch.as_tensor(recorded.action[used]),
            int(recorded.action.max()) + 1,
        )
    with torch.inference_mode():
        known = network(read(recorded.before[held_out], recorded.reached[held_out])).argmax(dim=1)
        accuracy = float((known.numpy() == recorded.action[held_out]).mean())
        if accuracy < LEAST_ACCURACY:
            return None
        found = network(read(states[:-1], states[1:])).argmax(dim=1).numpy()
    return InferredActions(found.astype(np.int64), accuracy)


def _classifier(pairs: Tensor, actions: Tensor, num_actions: int) -> nn.Module:
    """Trained by cross-entropy, with draws of torch's global generator."""
    network = nn.Sequential(
        *(nn.Linear(pairs.shape[1], _WIDTH), nn.ReLU(), nn.Linear(_WIDTH, _WIDTH), nn.ReLU()),
        nn.Linear(_WIDTH, num_actions),
    )
    optimiser = torch.optim.Adam(network.parameters(), _LEARNING_RATE)
    with torch.inference_mode(False), torch.enable_grad():
        for _ in range(_UPDATES):
            chosen = torch.randint(len(pairs), (_BATCH,))
            loss = nn.functional.cross_entropy(network(pairs[chosen]), actions[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


def _scale(table: NDArray) -> NDArray[np.float64]:
    """Standard deviations of columns; 1 where a column is constant."""
    deviation = table.std(axis=0)
    return np.where(deviation > 1e-9, deviation, 1.0)
