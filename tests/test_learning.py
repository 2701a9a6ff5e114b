"""VISR learns."""

from __future__ import annotations

from pathlib import Path

import visr
from visr.storage.tables import read_rows


def test_visr_learns_near_optimal_policies_for_rewards_in_the_span_of_phi(tmp_path: Path):
    # 500,000 steps of the demo: random policies score 0, optimal ones 1, an untrained psi about 0.
    # Measured with seeds 0, 1, 2: span 0.65, 0.64, 0.66; phi(s') . w 0.12 to 0.14 at first, 0.24 to 0.25
    # at last.
    run = visr.pretrain(
        preset="demo-visr",
        num_steps=500_000,
        phi_num_steps=0,
        evaluate_every=500_000,
        num_processes=1,
        out=tmp_path / "run",
    )
    first, *_, last = read_rows(run.directory.evaluation)
    assert abs(first["span"]) < 0.1
    assert last["span"] > 0.55
    metrics = read_rows(run.directory.metrics)
    assert metrics[-1]["intrinsic_reward"] > metrics[0]["intrinsic_reward"] + 0.05
    assert metrics[-1]["feature_concentration"] < 0.5
