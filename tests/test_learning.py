"""Fails if VISR stops learning."""

from __future__ import annotations

from pathlib import Path

import visr
from visr.run_dir import read_rows


def test_visr_learns_to_reach_what_it_can_express(tmp_path: Path):
    # 400,000 steps of the demo: random policies score 0, optimal ones 1, untrained psi about 0.
    # Measured with seeds 0 to 2: span 0.69 to 0.73, boxes 0.36 to 0.54; half of that still counts
    # as learning, nothing that is broken gets there.
    run = visr.pretrain(
        preset="demo",
        num_steps=400_000,
        phi_num_steps=300_000,
        evaluate_every=400_000,
        num_processes=1,
        out=tmp_path / "run",
    )
    first, *_, last = read_rows(run.directory.evaluation)
    assert abs(first["span"]) < 0.1
    assert last["span"] > 0.5
    assert last["boxes"] > 0.2
    metrics = read_rows(run.directory.metrics)
    assert metrics[-1]["intrinsic_reward"] > metrics[0]["intrinsic_reward"] + 0.1
    assert metrics[-1]["feature_concentration"] < 0.5
