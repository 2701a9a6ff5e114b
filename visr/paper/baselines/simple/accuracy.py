"""How good a model is on real steps that it has not seen: one step ahead, and many."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from visr.paper.baselines.simple.model import WorldModel
from visr.paper.baselines.simple.real_steps import RealSteps, draw
from visr.storage.records.imagined import Imagined

_ONE_STEP_SAMPLES = 512
_ROLLOUTS = 64
_EXAMPLES = 3
"""Rollouts that are kept frame by frame."""


def one_step(model: WorldModel, steps: RealSteps, rng: torch.Generator) -> dict[str, float]:
    """Metrics of one-step predictions on held-out steps; empty if there are none.

    `plane_accuracy` counts all cells, most of which are empty and stay so. `object_accuracy` counts only
    cells that are set in reality or in the prediction, `changed_accuracy` only cells that changed.
    """
    entries = steps.candidates(held_out=True)
    if not len(entries):
        return {}
    batch = steps.sequences(draw(entries, _ONE_STEP_SAMPLES, rng), 1)
    step = model.predict(batch.history, batch.action[:, 0], rng)
    real, before = batch.next_frame[:, 0], batch.history[:, -1]
    is_right, has_changed = step.frame == real, real != before
    is_object = (real != 0) | (step.frame != 0)
    reward = batch.reward[:, 0].sign()
    return {
        "plane_accuracy": _share(is_right),
        "object_accuracy": _share(is_right[is_object]),
        "changed_accuracy": _share(is_right[has_changed]),
        "copy_accuracy": _share(~has_changed),
        "reward_error": float((step.reward - reward).abs().mean()),
        "reward_found": float(step.reward[reward > 0].mean()) if (reward > 0).any() else 1.0,
        "end_error": _share(step.terminated != batch.terminated[:, 0]),
    }


def rollouts(model: WorldModel, steps: RealSteps, length: int, rng: torch.Generator) -> Imagined:
    """Predict held-out episodes from their start and their real actions alone.

    After a predicted end the predicted reward is 0, because a simulated episode would be over.
    Starts are held-out steps, because the model has not learnt what follows them; without any, all steps.
    """
    entries = steps.candidates(held_out=True)
    entries = entries if len(entries) else steps.candidates()
    batch = steps.sequences(draw(entries, _ROLLOUTS, rng), length)
    # The longest come first, so that the examples last.
    order = batch.is_valid.sum(dim=1).argsort(descending=True, stable=True)
    batch = type(batch)(*(x[order] for x in batch))
    history, start = batch.history, batch.history[:, -1]
    frames, errors, goes_on = [start], [], torch.ones(len(start))
    for t in range(length):
        step = model.predict(history, batch.action[:, t], rng)
        history = torch.cat([history[:, 1:], step.frame.unsqueeze(1)], dim=1)
        frames.append(step.frame)
        errors.append((step.reward * goes_on - batch.reward[:, t].sign()).abs())
        goes_on = goes_on * ~step.terminated
    real = torch.cat([start.unsqueeze(1), batch.next_frame], dim=1)
    predicted, valid = torch.stack(frames, dim=1), batch.is_valid
    has_planes = bool(real.max() <= 1)
    accuracy = _by_horizon((predicted == real).flatten(2).float().mean(dim=2)[:, 1:], valid)
    still = start.unsqueeze(1).expand_as(real)
    overlap = _by_horizon(_overlap(predicted, real)[:, 1:], valid)
    motionless = _overlap(still, real) if has_planes else (still == real).flatten(2).float().mean(2)
    return Imagined(
        real=real[:_EXAMPLES].numpy(),
        predicted=predicted[:_EXAMPLES].numpy(),
        lengths=valid[:_EXAMPLES].sum(dim=1).numpy(),
        accuracy=accuracy,
        overlap=overlap if has_planes else np.zeros(length),
        still=_by_horizon(motionless[:, 1:], valid),
        reward_error=_by_horizon(torch.stack(errors, dim=1), valid),
        count=valid.sum(dim=0).double().numpy(),
    )


def _overlap(one: Tensor, other: Tensor) -> Tensor:
    """Cells set in both, divided by cells set in either: [N, T, ...] -> [N, T]"""
    both = (one.bool() & other.bool()).flatten(2).sum(dim=2)
    either = (one.bool() | other.bool()).flatten(2).sum(dim=2)
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


def _by_horizon(values: Tensor, valid: Tensor) -> np.ndarray:
    """Means over the steps that happened: [N, T], [N, T] -> [T]; 0 where none did"""
    return ((values * valid).sum(dim=0) / valid.sum(dim=0).clamp(min=1)).double().numpy()


def _share(marks: Tensor) -> float:
    """The share that is True; 1 if there are none."""
    return float(marks.float().mean()) if marks.numel() else 1.0
