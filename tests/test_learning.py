"""VISR learns."""

from __future__ import annotations

from pathlib import Path

import visr
from visr.storage.tables import read_rows


def test_visr_learns_near_optimal_policies_for_rewards_in_the_span_of_phi(tmp_path: Path):
    # 200,000 steps of the demo: random policies score 0, optimal ones 1, an untrained psi about 0.
    # Measured with seeds 0, 1, 2: span 0.54, 0.57, 0.62; phi(s') . w 0.12 to 0.14 at first, 0.22 to 0.23
    # at last.
    run = visr.pretrain(
        preset="demo-visr",
        num_steps=200_000,
        phi_num_steps=0,
        evaluate_every=200_000,
        num_processes=1,
        out=tmp_path / "run",
    )
    first, *_, last = read_rows(run.directory.evaluation)
    assert abs(first["span"]) < 0.1
    assert last["span"] > 0.45
    metrics = read_rows(run.directory.metrics)
    assert metrics[-1]["intrinsic_reward"] > metrics[0]["intrinsic_reward"] + 0.05
    assert metrics[-1]["feature_concentration"] < 0.5
