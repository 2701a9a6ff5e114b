"""Refine the instant policies of MinAtar's games: scores over updates and CPU seconds.

python experiments/refine_minatar.py Asterix Breakout --seeds 0 --updates 10000 --runs runs

100,000 rewarded steps infer the task and train the reward model, which labels all recorded steps. The
learner from nothing has the same rewards, settings and updates, and no instant policy to start from. Of both,
the policy that the guard keeps and the latest one play 30 episodes after a tenth, a third and all of the
updates.
"""

import argparse
import dataclasses
import math
import time
from pathlib import Path

import torch
from replay_runs import append, infer_env, pretrained, settings

import visr
from visr import config as configuration
from visr.agents.base import Agent
from visr.agents.refined import RefinedAgent
from visr.config import presets
from visr.envs.episodes import EpisodeSteps
from visr.evaluation import episodes
from visr.finetuning import reward_labels
from visr.finetuning.refine import Limit, Refiner
from visr.finetuning.reward_labels import Labels
from visr.inference.asked_reward import asked_reward
from visr.storage.records.episodes import EpisodeEvaluation

REWARDED = 100_000
MARKS = (0.1, 1 / 3, 1.0)
"""Shares of the updates after which policies play."""


class Game:
    """A run, its game's task and labels, and where the scores go."""

    def __init__(self, run: visr.Run, game: str, seed: int, out: Path) -> None:
        self.run, self.seed, self._out = run, seed, out
        rewarded: list[EpisodeSteps] = []
        self.task = infer_env(run, REWARDED, seed, rewarded.append)
        began = time.process_time()
        self.labels: Labels = reward_labels.of_rewarded(
            run.offline_steps, rewarded, run.visr, run.config, seed
        )
        self.labelling = time.process_time() - began
        self.w = torch.as_tensor(self.task.w, dtype=torch.float32)
        self._asked = asked_reward(self.task, run.agent, run._codec)
        self._fields: dict[str, object] = {"game": game, "seed": seed}
        self._fields["features"] = run.config.replay.transition_features
        self._fields["recorded"] = len(run.offline_steps)
        self._fields["reward_r_squared"] = f"{self.labels.r_squared:.3f}"

    def play(self, agent: Agent, w: torch.Tensor, compare: bool = False) -> EpisodeEvaluation:
        """30 episodes; `compare`: also of the random policy and of the best constant action.

        The agent pursues w, which is 0 where Q is the residual alone.
        """
        task = dataclasses.replace(self.task, w=w.double().numpy())
        config, asked = self.run.config, self._asked
        return episodes.evaluate(
            agent, config, task, asked, num_episodes=30, seed=self.seed, compare=compare
        )

    def refine(self, name: str, w: torch.Tensor, updates: int, marks: list[int]) -> None:
        """Refine from this w, and a row for each policy at each mark; w = 0 starts from nothing."""
        run, began = self.run, time.process_time()
        gpi = run.config.agent.gpi and bool(w.any())
        steps = run.offline_steps
        refiner = Refiner(run.visr, w, steps, self.labels.reward, gpi=gpi, seed=self.seed)
        spent = self.labelling
        for now in refiner.slices(Limit(num_updates=updates)):
            if now.num_updates not in marks:
                continue
            spent += time.process_time() - began
            kept = run.agent if refiner.best is None else RefinedAgent(run.visr, refiner.best, w)
            if refiner.best is not None or w.any():
                self.add(name, self.play(kept, w), now.num_updates, spent, now.value)
            latest = RefinedAgent(run.visr, refiner.latest, w)
            self.add(f"{name}, latest", self.play(latest, w), now.num_updates, spent)
            began = time.process_time()

    def add(
        self,
        policy: str,
        played: EpisodeEvaluation,
        updates: int = 0,
        cpu_seconds: float = 0.0,
        estimate: float = math.nan,
    ) -> None:
        """A row for every policy that played."""
        for found in played.policies:
            is_first = found is played.policies[0]
            row: dict[str, object] = dict(self._fields)
            row["policy"] = policy if is_first else found.policy
            row["updates"], row["cpu_seconds"] = updates or "", round(cpu_seconds) or ""
            row["estimate"] = "" if math.isnan(estimate) else f"{estimate:.5g}"
            row["score"] = round(found.asked.mean, 2)
            row["standard_error"] = f"{found.asked.standard_error:.2f}"
            append(self._out, row)


def run_game(
    game: str, seed: int, updates: int, kept: Path | None, out: Path, **fields: object
) -> None:
    """Pre-train or load, infer, refine, learn from nothing; append a row for each score."""
    config = configuration.replace(
        presets.get("replay-minatar"), env=f"MinAtar/{game}-v1", seed=seed, **fields
    )
    with pretrained(config, kept) as (run, _):
        played = Game(run, game, seed, out)
        played.add("instant", played.play(run.agent, played.w, compare=True))
        marks = [max(round(updates * share / 250) * 250, 250) for share in MARKS]
        played.refine("refined", played.w, updates, marks)
        played.refine("from nothing", torch.zeros_like(played.w), updates, marks)


def main() -> None:
    """Append a row per score."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--set", nargs="*", default=[], help="settings as name=value")
    parser.add_argument("--runs", type=Path, help="keep the runs in this directory")
    parser.add_argument("--out", type=Path, default=Path("results/refine/minatar.csv"))
    chosen = parser.parse_args()
    for seed in chosen.seeds:
        for game in chosen.games:
            kept = chosen.runs and chosen.runs / f"{game}-{seed}"
            given = settings(chosen.set)
            run_game(game, seed, chosen.updates, kept, chosen.out, **given)


if __name__ == "__main__":
    main()
