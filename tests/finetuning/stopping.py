"""Compare a fine-tuning that was stopped and resumed with one that was not."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import visr
from visr.errors import Stopped
from visr.finetuning import run as finetuning
from visr.finetuning.trainer import FineTuner
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir
from visr.training import checkpoint


def assert_a_stop_changes_nothing(
    run: visr.Run,
    task: Task,
    place: Path,
    *,
    at: int,
    fields: dict[str, Any],
    politely: bool = False,
) -> RunDir:
    """Stop at step `at`, between two checkpoints, and resume: the result has the same bytes.

    `politely`: by a signal, so that no work is lost.
    """
    whole = run.finetune(task, out=place / "whole", **fields).directory
    rounds = FineTuner.round

    def stop(self: FineTuner) -> dict[str, float]:
        if self.num_steps >= at:
            if not politely:
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGTERM)
        return rounds(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FineTuner, "round", stop)
        with pytest.raises(Stopped if politely else KeyboardInterrupt) as stopped:
            run.finetune(task, out=place / "cut", **fields)
    saved = int(checkpoint.newest(RunDir(place / "cut")).stem)
    if politely:
        assert saved >= at
        assert f"step {saved:,}. Go on with `visr finetune --resume" in str(stopped.value)
    else:
        assert saved < at
    cut = finetuning.resume(place / "cut")
    (a, counts), (b, others) = (checkpoint.load(checkpoint.newest(r)) for r in (whole, cut))
    assert counts == others
    assert all(torch.equal(a[k], b[k]) for k in a)
    for file in ("metrics.csv", "finetuned.json"):
        assert (whole.path / file).read_bytes() == (cut.path / file).read_bytes()
    return cut
