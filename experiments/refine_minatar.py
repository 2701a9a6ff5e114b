"""Refine the instant policies of MinAtar's games: scores over updates and CPU seconds.

python experiments/refine_minatar.py Asterix Breakout --seeds 0 --updates 12000 --runs runs

Of 100,000 rewarded steps, 80,000 infer the task and train the reward model; in the other 20,000 the policies
refined with each n (of n-step targets), after a quarter of the updates, play, and the better n goes on.
The learner from nothing has the same rewards, updates and n, and no instant policy to start from.
"""

import argparse
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from replay_runs import append, infer_env, pretrained

import visr
from visr import config as configuration
from visr.agents.base import Agent
from visr.agents.refined import RefinedAgent
from visr.config import presets
from visr.envs.episodes import EpisodeSteps, TaskSchedule
from visr.evaluation import episodes
from visr.finetuning import reward_labels
from visr.finetuning.refine import Limit, Refiner, Slice
from visr.finetuning.reward_labels import Labels
from visr.inference import collect
from visr.inference.asked_reward import asked_reward

REWARDED, TRIALS = 80_000, 20_000
CANDIDATES = (1, 3)


@dataclass
class Candidate:
    """A refinement with one n, and what it has cost."""

    n: int
    refiner: Refiner
    slices: Iterator[Slice]
    w: torch.Tensor
    now: Slice | None = None
    cpu_seconds: float = 0.0

    def advance(self, num_updates: int) -> None:
        """Go on to this number of updates."""
        began = time.process_time()
        for now in self.slices:
            self.now = now
            if now.num_updates >= num_updates:
                break
        self.cpu_seconds += time.process_time() - began

    def agent(self, run: visr.Run) -> Agent:
        """The agent that acts by the best policy so far."""
        best = self.refiner.best
        return run.agent if best is None else RefinedAgent(run.visr, best, self.w)


def candidate(
    run: visr.Run, w: torch.Tensor, labels: Labels, n: int, updates: int, seed: int
) -> Candidate:
    """A refinement that has not begun; its learning rate falls over this number of updates."""
    began = time.process_time()
    gpi = run.config.agent.gpi and bool(w.any())
    refiner = Refiner(run.visr, w, run.offline_steps, labels.reward, gpi=gpi, seed=seed, n_step=n)
    slices = refiner.slices(Limit(num_updates=updates))
    return Candidate(n, refiner, slices, w, cpu_seconds=time.process_time() - began)


def mean_return(run: visr.Run, agent: Agent, task: visr.Task, steps: int, seed: int) -> float:
    """Reward per episode in so many steps of one environment."""
    found: list[EpisodeSteps] = []
    schedule = TaskSchedule(lambda: task.w.astype(np.float32))
    collect.collect_rewarded(
        agent,
        run.config,
        num_episodes=10**6,
        num_steps=steps,
        seed=seed,
        schedule=schedule,
        on_step=found.append,
    )
    ended = sum(int(np.asarray(part.terminated).sum()) for part in found)
    return float(sum(part.reward.sum() for part in found)) / max(ended, 1)


def run_game(game: str, seed: int, updates: int, kept: Path | None, out: Path) -> None:
    """Pre-train or load, infer, try each n, refine with the best one; append a row for each score."""
    config = configuration.replace(
        presets.get("replay-minatar"), env=f"MinAtar/{game}-v1", seed=seed
    )
    with pretrained(config, kept) as (run, _):
        rewarded: list[EpisodeSteps] = []
        task = infer_env(run, REWARDED, seed, rewarded.append)
        began = time.process_time()
        labels = reward_labels.of_rewarded(run.offline_steps, rewarded, run.visr, run.config, seed)
        labelling = time.process_time() - began
        asked = asked_reward(task, run.agent, run._codec)
        fields: dict[str, Any] = {"game": game, "seed": seed, "recorded": len(run.offline_steps)}
        fields |= {"reward_r_squared": f"{labels.r_squared:.3f}"}

        def score(
            policy: str, agent: Agent, one: Candidate | None = None, trial: float = math.nan
        ) -> None:
            played = episodes.evaluate(
                agent, run.config, task, asked, num_episodes=30, seed=seed, compare=one is None
            )
            now = one and one.now
            for found in played.policies:
                is_first = found is played.policies[0]
                row: dict[str, Any] = fields | {"policy": policy if is_first else found.policy}
                row["n_step"] = one.n if one else ""
                row["updates"] = now.num_updates if now else ""
                row["cpu_seconds"] = round(one.cpu_seconds) if one else ""
                row["estimate"] = f"{now.value:.5g}" if now else ""
                row["trial"] = "" if math.isnan(trial) else f"{trial:.4g}"
                row["score"] = round(found.asked.mean, 2)
                row["standard_error"] = f"{found.asked.standard_error:.2f}"
                append(out, row)

        score("instant", run.agent)
        w = torch.as_tensor(task.w, dtype=torch.float32)
        first, last = updates // 4, 3 * updates // 4  # of one candidate; others stop at the first
        tried = [candidate(run, w, labels, n, last, seed) for n in CANDIDATES]
        trials = []
        for one in tried:
            one.advance(first)
            share = TRIALS // len(CANDIDATES)
            trials.append(mean_return(run, one.agent(run), task, share, seed + 2))
            score("refined", one.agent(run), one, trials[-1])
        chosen = tried[int(np.argmax(trials))]
        chosen.cpu_seconds = labelling + sum(one.cpu_seconds for one in tried)  # of all
        chosen.advance(last)
        score("refined, chosen", chosen.agent(run), chosen)
        afresh = candidate(run, torch.zeros_like(w), labels, chosen.n, last, seed)
        afresh.advance(last)
        score("from nothing", afresh.agent(run), afresh)


def main() -> None:
    """Append a row per score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=12_000, help="of all candidates together")
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/refine/minatar.csv"))
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        for game in chosen.games:
            kept = chosen.runs and chosen.runs / f"{game}-{seed}"
            run_game(game, seed, chosen.updates, kept, chosen.out)


if __name__ == "__main__":
    main()
