"""How DIAYN adapts: try all of its skills, keep the best."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from visr.agents.diayn import Diayn
from visr.config import AgentConfig
from visr.envs.episodes import Choice
from visr.evaluation import grid_benchmark


def in_turn(config: AgentConfig) -> Choice:
    """A skill an episode, from the first to the last and over again."""
    skills = itertools.cycle(np.eye(config.num_skills, dtype=np.float32))
    return Choice(lambda: next(skills))


def exact_scores(agent: Diayn, exact: grid_benchmark.Evaluator) -> dict[str, float]:
    """Fraction of optimal of the best skill for each task of a family, averaged over the family."""
    skills = np.eye(agent.config.num_skills)
    policies = grid_benchmark.actions(agent, exact.world, skills, gpi=False)
    return {
        name: float(np.max([_fractions(exact, name, policy) for policy in policies], axis=0).mean())
        for name in exact.families
    }


def _fractions(
    exact: grid_benchmark.Evaluator, name: str, policy: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Of one policy in every task of a family."""
    return exact.fractions(name, np.tile(policy, (len(exact.families[name]), 1)))
