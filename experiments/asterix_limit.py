"""The best one-step accuracy that four observations of Asterix permit, by counting, beside a model's own.

python experiments/asterix_limit.py RUN --out results/simple/asterix_limit.csv

RUN is a finished SimPLe run; its policy plays new steps. Objects move together, every few steps. Observations
show moves, but neither the interval nor the steps since the last one. Two predictors, on the same steps:

1. `best_all_but_timer` knows the true state, the interval, the action that is executed and what appears,
2. `best` knows the true state and the interval, but not whether the last action is repeated or what appears.

Neither knows how long ago the last move was if the last four observations show none. In each group of steps
that a predictor cannot tell apart it predicts whichever costs fewer cells, moves or none. A model of four
observations knows less than both.
"""

from __future__ import annotations

import argparse
import copy
import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from minatar import Environment
from numpy.typing import NDArray

from visr.paper.baselines.simple.agent import Simple
from visr.storage.run_dir import RunDir
from visr.training import checkpoint

_NEVER = 1_000_000
Costs = dict[tuple[int, ...], NDArray[np.float64]]


def trained(path: Path) -> Simple:
    """A finished run's policy and model."""
    run = RunDir(path)
    simple = Simple(run.config())
    tensors, counts = checkpoint.load(run.checkpoint(simple.total_steps))
    simple.load_state(tensors, counts)
    return simple


def planes(game: Any) -> NDArray[np.uint8]:
    """[C, 10, 10]"""
    return np.ascontiguousarray(game.state().transpose(2, 0, 1)).astype(np.uint8)


def after(game: Any, action: int, moves: bool, appears: bool = True) -> NDArray[np.uint8]:
    """The next planes of a copy of the game whose objects move in this step, or do not."""
    other = copy.deepcopy(game)
    other.move_timer = 0 if moves else _NEVER
    other.spawn_timer = other.spawn_timer if appears else _NEVER
    other.act(action)
    return planes(other)


def least(costs: Costs) -> float:
    """Wrong cells if the cheaper prediction is made in every group."""
    return float(sum(pair.min() for pair in costs.values()))


def measure(path: Path, seed: int, num_steps: int) -> dict[str, object]:
    """Accuracies over new steps of a run's policy."""
    simple = trained(path)
    env, rng = Environment("asterix"), torch.Generator().manual_seed(seed)
    env.seed(seed)
    actions = env.minimal_action_set()
    all_but_timer: Costs = defaultdict(lambda: np.zeros(2))
    best: Costs = defaultdict(lambda: np.zeros(2))
    copied, moves, hidden = 0, 0, 0
    histories, chosen_actions, following = [], [], []

    def begin() -> None:
        env.reset()
        env.last_action = 0

    begin()
    frames, last_move = [planes(env.env)], -_NEVER
    for _ in range(num_steps):
        game, age = env.env, len(frames) - 1
        index = simple.policy.act(frames[-1], rng)
        chosen = actions[index]
        executed = env.last_action if env.random.rand() < env.sticky_action_prob else chosen
        env.last_action = executed
        moved = game.move_timer == 0
        count = sum(x is not None for x in game.entities)
        since = min(age - last_move, 4)
        group = (game.move_speed, since, min(age, 3), count)
        outcomes = [after(game, executed, m) for m in (False, True)]
        guesses = [after(game, chosen, m, appears=False) for m in (False, True)]
        shows_move = moved and (count > 0 or game.spawn_timer == 0)
        _, ended = game.act(executed)
        real = planes(game)
        assert (real == outcomes[moved]).all()
        all_but_timer[group] += [(real != x).sum() for x in outcomes]
        best[group] += [(real != x).sum() for x in guesses]
        copied += int((real != frames[-1]).sum())
        moves, hidden = moves + shows_move, hidden + (shows_move and since == 4)
        padded = [np.zeros_like(real)] * 3 + frames
        histories.append(np.stack(padded[-4:]))
        chosen_actions.append(index)
        following.append(real)
        last_move = age if shows_move else last_move
        frames.append(real)
        if ended:
            begin()
            frames, last_move = [planes(env.env)], -_NEVER
    cells = following[0].size * num_steps
    wrong = 0
    for first in range(0, num_steps, 500):
        part = slice(first, first + 500)
        history = torch.from_numpy(np.stack(histories[part]))
        said = simple.world.predict(history, torch.tensor(chosen_actions[part]), rng).frame.numpy()
        wrong += int((said != np.stack(following[part])).sum())
    simple.close()
    shares = {
        "copy": copied,
        "model": wrong,
        "best": least(best),
        "best_all_but_timer": least(all_but_timer),
    }
    found: dict[str, object] = {"run_seed": simple.config.training.seed, "steps": num_steps}
    found |= {name: round(1 - count / cells, 5) for name, count in shares.items()}
    return found | {"moves": moves, "moves_after_three_steps_without": hidden}


def main() -> None:
    """Write one row per run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--out", type=Path, default=Path("results/simple/asterix_limit.csv"))
    chosen = parser.parse_args()
    rows = [measure(path, 0, chosen.steps) for path in chosen.runs]
    with chosen.out.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
