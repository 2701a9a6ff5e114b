"""Demonstrations to the packed models of classic control, beside the demonstrator's own return.

python experiments/demonstrations.py CartPole-v1 Acrobot-v1 MountainCar-v0 --write

One episode of at most 200 steps is shown, as states only and with its actions. Demonstrators are the
model's own policies for a reward, and scripted policies. Each is scored by the reward that the demonstrator
pursues, which the prompt does not name. `--tuning` uses the rewards by which the method was chosen.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path

import gymnasium
import numpy as np
from model_card import SHOWN_STEPS, episode
from numpy.typing import NDArray
from replay_vectors import REWARDS, TUNING

import visr
from visr.envs.episodes import EpisodeSteps
from visr.evaluation import episodes
from visr.inference.asked_reward import AskedReward

TARGET = Path(__file__).parent.parent / "results" / "replay" / "demonstrations.csv"
MODELS = {"CartPole-v1": "cartpole", "Acrobot-v1": "acrobot", "MountainCar-v0": "mountaincar"}
NUM_EPISODES = 10
SCRIPTS: dict[str, tuple[str, str, Callable[[NDArray], int]]] = {
    "CartPole-v1": (
        "balance left of the middle",
        "1 / (1 + ((x0 + 0.75) / 0.25)**2)",
        lambda s: int(s[2] + 0.5 * s[3] + 0.1 * (s[0] + 1) + 0.2 * s[1] > 0),
    ),
    "MountainCar-v0": ("push along the velocity", "env", lambda s: 2 if s[1] > 0 else 0),
}
"""What the scripted demonstrator does, the reward that scores it, and its action."""


@dataclasses.dataclass(frozen=True)
class Shown:
    """One demonstration, and the reward that it is scored by."""

    words: str
    states: NDArray
    actions: NDArray[np.int64]
    """One fewer than states."""
    asked: AskedReward
    score: float
    """The demonstrator's own mean return."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("envs", nargs="+", choices=sorted(MODELS))
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--write", action="store_true", help=f"write {TARGET.name}")
    chosen = parser.parse_args()
    rows = [row for env in chosen.envs for row in measure(env, chosen.tuning)]
    if chosen.write:
        with TARGET.open("w", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


def measure(env: str, tuning: bool) -> Iterator[dict[str, object]]:
    run = visr.load(f"pretrained:{MODELS[env]}")
    for shown in demonstrators(run, (TUNING if tuning else REWARDS)[env]):
        random = played(run, run.skill(0), shown.asked, epsilon=1.0)
        prompts = {"states": shown.states, "states and actions": (shown.states, shown.actions)}
        for given, prompt in prompts.items():
            task = run.infer(demonstration=prompt)
            score = played(run, task, shown.asked)
            share = (score - random) / max(shown.score - random, 1e-9)
            row = {
                "env": env,
                "demonstrator": shown.words,
                "given": given,
                "method": task.method,
                "score": round(score, 2),
                "demonstrator_score": round(shown.score, 2),
                "random": round(random, 2),
                "fraction": round(share, 3),
            }
            print(row, flush=True)
            yield row


def demonstrators(run: visr.Run, rewards: tuple[str, ...]) -> Iterator[Shown]:
    for text in rewards:
        task = run.infer(text)
        states, actions = episode(run, task, SHOWN_STEPS)
        asked = run.asked_reward(task)
        words = "own policy for " + ("the environment's reward" if text == "env" else text)
        yield Shown(words, states, actions[:-1], asked, played(run, task, asked))
    if run.config.env in SCRIPTS:
        words, reward, act = SCRIPTS[run.config.env]
        yield scripted(run, words, reward, act)


def scripted(run: visr.Run, words: str, reward: str, act: Callable[[NDArray], int]) -> Shown:
    """The first episode of a script is shown; its score is the mean of all."""
    asked = run.asked_reward(run.infer(reward))
    env, sums, shown = gymnasium.make(run.config.env), [], None
    for seed in range(NUM_EPISODES):
        states, actions, rewards = [env.reset(seed=seed)[0]], [], []
        is_over = False
        while not is_over:
            actions.append(act(states[-1]))
            state, own, terminated, truncated, _ = env.step(actions[-1])
            states.append(state)
            rewards.append(own)
            is_over = terminated or truncated
        reached = np.stack(states[1:])
        none = np.zeros(len(actions), dtype=np.intp)  # all are steps of one episode
        taken = (np.stack(states[:-1]), np.array(actions), reached, np.array(rewards))
        sums.append(float(asked.of(EpisodeSteps(none, *taken)).sum()))
        shown = shown or (np.stack(states[: SHOWN_STEPS + 1]), np.array(actions[:SHOWN_STEPS]))
    assert shown is not None
    return Shown(words, *shown, asked, float(np.mean(sums)))


def played(run: visr.Run, task: visr.Task, asked: AskedReward, epsilon: float = 0.0) -> float:
    found = episodes.evaluate(
        *(run.agent, run.config, task, asked),
        num_episodes=NUM_EPISODES,
        compare=False,
        epsilon=epsilon,
    )
    return found.asked.mean


if __name__ == "__main__":
    main()
