"""Preference answers of a scripted teacher to a grid run of the replay learner: exact fractions of optimal.

python experiments/replay_preferences.py RUN
"""

import argparse
from pathlib import Path

import numpy as np
from replay_grid import rewards
from replay_runs import append

import visr
from visr.inference import preferences
from visr.inference.preferences import SEGMENT


def taught(run: visr.Run, reward: np.ndarray, num_answers: int) -> tuple[visr.Task, int]:
    """The task after the answers, and how often both segments returned the same, so that it passed."""
    recorded = run.recording().in_order()
    prior = preferences.prior_of(run.agent, recorded.phi, recorded.episode)
    starts, gaps, passed = preferences.starts(recorded.episode), [], 0
    for number in range(100):
        pair = preferences.next_pair(recorded.phi, starts, np.array(gaps), number, prior=prior)
        returns = [reward[recorded.reached[at : at + SEGMENT]].sum() for at in pair]
        if returns[0] == returns[1]:
            passed += 1
            continue
        sums = preferences.segment_sums(recorded.phi, [(at, at + SEGMENT) for at in pair])
        gaps.append((sums[0] - sums[1]) * np.sign(returns[0] - returns[1]))
        if len(gaps) == num_answers:
            break
    w = preferences.fit(np.array(gaps), prior).mean
    return visr.Task(w=w, env=run.config.env, reward=reward), passed


def main() -> None:
    """Append one row per reward."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--rewards", type=int, default=8)
    parser.add_argument(
        "--tuning", action="store_true", help="other rewards, to choose settings by"
    )
    parser.add_argument("--out", type=Path, default=Path("results/replay/preferences.csv"))
    chosen = parser.parse_args()
    run = visr.load(chosen.run)
    assert run.world is not None
    shape = run.world.height, run.world.width
    found = rewards("boxes", run.world, 99 if chosen.tuning else 1)[: chosen.rewards]
    for number, reward in enumerate(found):
        task, passed = taught(run, reward, chosen.answers)
        direct = run.evaluate_exactly(run.infer(reward.reshape(shape))).fraction_of_optimal
        mine = run.evaluate_exactly(task).fraction_of_optimal
        row = {"reward": number, "answers": chosen.answers, "passed": passed}
        append(chosen.out, row | {"taught": round(mine, 3), "direct": round(direct, 3)})


if __name__ == "__main__":
    main()
