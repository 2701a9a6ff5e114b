"""Preference answers of a scripted teacher to a grid run of the replay learner: exact fractions of optimal.

python experiments/replay_preferences.py pretrained:grid
"""

import argparse
from pathlib import Path

import numpy as np
from replay_grid import rewards
from replay_runs import append

import visr
from visr.inference import preferences
from visr.inference.preferences import SEGMENT


def taught(
    run: visr.Run, reward: np.ndarray, num_answers: int, seed: int, only_named: bool
) -> tuple[visr.Task, int, int]:
    """The task after so many answers, their number, and how many say that both segments are as good."""
    recorded = run.recording().in_order()
    prior = preferences.prior_of(run.agent, recorded.phi, recorded.episode)
    starts, known = preferences.starts(recorded.episode), None
    gaps = {is_equal: np.zeros((0, run.agent.task_size)) for is_equal in (False, True)}
    count = 0
    while (len(gaps[False]) if only_named else count) < num_answers:
        at = preferences.next_pair(recorded.phi, starts, known, 1000 * seed + count)
        pair = [(start, start + SEGMENT) for start in at]
        returns = [reward[recorded.reached[a:b]].sum() for a, b in pair]
        sums = preferences.segment_sums(recorded.phi, pair)
        is_equal = abs(returns[0] - returns[1]) < 1e-9
        gap = (sums[0] - sums[1]) * (1 if returns[0] >= returns[1] else -1)
        gaps[is_equal] = np.vstack([gaps[is_equal], gap])
        known = preferences.fit(gaps[False], gaps[True], prior)
        count += 1
    assert known is not None
    task = visr.Task(w=known.mean, env=run.config.env, reward=reward)
    return task, count, len(gaps[True])


def main() -> None:
    """Append one row per reward and teacher."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--answers", type=int, default=20)
    parser.add_argument("--rewards", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the questions")
    parser.add_argument(
        "--kind", default="boxes", choices=["boxes", "goals", "three goals", "16 cells"]
    )
    parser.add_argument(
        "--named", action="store_true", help="count only answers that name the better segment"
    )
    parser.add_argument(
        "--tuning", action="store_true", help="other rewards, to choose settings by"
    )
    parser.add_argument("--out", type=Path, default=Path("results/replay/preferences.csv"))
    chosen = parser.parse_args()
    run = visr.load(chosen.run)
    assert run.world is not None
    shape = run.world.height, run.world.width
    found = rewards(chosen.kind, run.world, 99 if chosen.tuning else 1)[: chosen.rewards]
    for number, reward in enumerate(found):
        direct = run.evaluate_exactly(run.infer(reward.reshape(shape))).fraction_of_optimal
        for seed in chosen.seeds:
            task, count, as_good = taught(run, reward, chosen.answers, seed, chosen.named)
            mine = run.evaluate_exactly(task).fraction_of_optimal
            row = {"kind": chosen.kind, "reward": number, "seed": seed, "answers": count}
            row |= {"as_good": as_good, "taught": round(mine, 3), "direct": round(direct, 3)}
            append(chosen.out, row)


if __name__ == "__main__":
    main()
