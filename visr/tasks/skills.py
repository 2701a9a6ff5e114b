"""How DIAYN adapts: try all of its skills, keep the best."""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from visr.agents.diayn import Diayn
from visr.config import AgentConfig, RunConfig
from visr.tasks import families
from visr.tasks.episodes import Choice
from visr.tasks.protocol import Rewarded
from visr.tasks.task import Task


def in_turn(config: AgentConfig) -> Choice:
    """A skill an episode, from the first to the last and over again."""
    skills = itertools.cycle(np.eye(config.num_skills, dtype=np.float32))
    return Choice(lambda: next(skills))


def by_search(seen: Rewarded, config: RunConfig) -> Task:
    """The skill with the highest mean return; episodes that were cut short count only if all were."""
    counted = [e for e in seen.episodes if e.is_finished] or seen.episodes
    returns: dict[int, list[float]] = {}
    for episode in counted:
        returns.setdefault(int(episode.w.argmax()), []).append(episode.score)
    means = {skill: float(np.mean(scores)) for skill, scores in sorted(returns.items())}
    best = max(means, key=lambda skill: means[skill])
    num_skills = config.agent.num_skills
    return Task(
        name="env-search",
        env=config.env,
        w=np.eye(num_skills)[best],
        method=f"search over {len(means)} of {num_skills} skills, best mean return {means[best]:g}",
        r_squared=0.0,
        condition_number=math.inf,
        standard_error=np.full(num_skills, math.inf),
        num_steps=len(seen.reward),
        num_rewarded=int(np.count_nonzero(seen.reward)),
    )


def exact_scores(agent: Diayn, exact: families.Evaluator) -> dict[str, float]:
    """Fraction of optimal of the best skill for each task of a family, averaged over the family."""
    skills = np.eye(agent.config.num_skills)
    policies = families.actions(agent, exact.world, skills, gpi=False)
    return {
        name: float(np.max([_fractions(exact, name, policy) for policy in policies], axis=0).mean())
        for name in exact.families
    }


def _fractions(
    exact: families.Evaluator, name: str, policy: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of one policy in every task of a family."""
    return exact.fractions(name, np.tile(policy, (len(exact.families[name]), 1)))
