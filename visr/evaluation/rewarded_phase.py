"""The rewarded phase as a whole, and what it leaves on disk."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from visr import atari_games
from visr.agents.base import Agent
from visr.agents.diayn import Diayn
from visr.config import RunConfig
from visr.envs.episodes import Choice
from visr.errors import UserError
from visr.evaluation import skill_search, two_phase
from visr.evaluation.two_phase import Rewarded, Scores
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Condition, TwoPhase
from visr.storage.run_dir import RunDir


@dataclass(frozen=True, eq=False)
class PhaseTwo:
    """Tasks inferred from one and the same data, and the scores of each."""

    seen: Rewarded
    tasks: dict[str, Task]
    scores: list[Scores]


def infer_tasks(seen: Rewarded, config: RunConfig) -> dict[str, Task]:
    """Regression and random search on the same data; where no reward was seen, search alone remains.

    DIAYN has no features to regress on: it only searches, among its skills.
    """
    tasks = {"env-search": two_phase.by_search(seen, config)}
    if config.agent.algorithm != "visr":
        return tasks
    try:
        return {"env-regression": two_phase.by_regression(seen, config), **tasks}
    except UserError:
        return tasks


def run(
    agent: Agent,
    config: RunConfig,
    *,
    num_episodes: int = two_phase.NUM_EPISODES,
    num_steps: int = two_phase.NUM_STEPS,
    num_trials: int = two_phase.NUM_TRIALS,
    num_tasks: int | None = None,
    seed: int = 0,
    note: Callable[[str], None] = lambda text: None,
) -> PhaseTwo:
    """Meet rewards, adapt in every way the agent can, judge each against no adaptation and random actions.

    With `num_tasks` so many take turns for as long as rewards are met; else every episode has its own.
    """
    seen, tasks = two_phase.NOTHING, {}
    if agent.adapts:
        note(f"meeting rewards: {num_episodes} episodes or {num_steps:,} steps")
        seen = two_phase.meet_rewards(
            agent,
            config,
            num_episodes=num_episodes,
            num_steps=num_steps,
            seed=seed,
            choice=_choice(agent, num_tasks, seed),
        )
        tasks = infer_tasks(seen, config)
    scores = []
    for result in two_phase.judge(agent, config, tasks, num_episodes=num_trials, seed=seed + 1):
        note(f"{result.name}: {result.mean:,.1f} over {len(result.scores)} episodes")
        scores.append(result)
    return PhaseTwo(seen, tasks, scores)


def _choice(agent: Agent, num_tasks: int | None, seed: int) -> Choice | None:
    if isinstance(agent, Diayn):
        return skill_search.in_turn(agent.config)
    if num_tasks is None:
        return None
    draw = two_phase.own_tasks(agent, seed)
    tasks = itertools.cycle([draw() for _ in range(num_tasks)])
    return Choice(lambda: next(tasks))


def record(result: PhaseTwo, config: RunConfig, num_steps: int) -> TwoPhase:
    """As phase_two.json holds it."""
    game = atari_games.by_id(config.env)
    return TwoPhase(
        env=config.env,
        num_steps=num_steps,
        num_rewarded_steps=len(result.seen.reward),
        num_rewarded_episodes=len(result.seen.episodes),
        num_seen=int(np.count_nonzero(result.seen.reward)),
        num_trials=len(result.scores[0].scores),
        epsilon=config.agent.exploration,
        clip_rewards=config.inference.clip_rewards,
        random_score=game.random if game else None,
        human_score=game.human if game else None,
        conditions=tuple(condition(s, result.tasks.get(s.name)) for s in result.scores),
    )


def condition(scores: Scores, task: Task | None) -> Condition:
    """One way to act: its scores, and how well its task explains the rewards."""
    r_squared = None if task is None else task.r_squared
    return Condition.from_scores(
        scores.name, scores.scores, scores.num_steps, scores.human_normalised, r_squared
    )


def save(run_dir: RunDir, result: PhaseTwo, config: RunConfig, num_steps: int) -> dict[str, Any]:
    """Write phase_two.json and the tasks into the run."""
    for name, task in result.tasks.items():
        task.save(run_dir.task(name))
    content = schema.to_dict(record(result, config, num_steps))
    write_json(run_dir.phase_two, content)
    return content
