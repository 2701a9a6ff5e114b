"""Scores of a trained baseline, recorded like the rewarded phase of every other agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from visr import envs
from visr.agents.epsilon_greedy_actor import epsilon_greedy
from visr.config import RunConfig
from visr.envs.episodes import TaskSchedule
from visr.evaluation import two_phase
from visr.evaluation.two_phase import PhaseTwo
from visr.optional_packages import needing
from visr.storage.records.two_phase import AS_TRAINED, UNTRAINED
from visr.storage.run_dir import RunDir


class BaselineActor:
    """Acts greedily (observations [N, ...] -> actions [N]); at random with probability epsilon."""

    task_size = 1

    def __init__(
        self, greedy: Callable[[NDArray], NDArray], num_actions: int, epsilon: float, seed: int
    ) -> None:
        self._greedy, self._num_actions, self._epsilon = greedy, num_actions, epsilon
        self._rng = torch.Generator().manual_seed(seed)

    def pursue(self, w: Any) -> None:
        """Ignored: it always pursues the reward it was trained on."""

    def act(self, observation: NDArray, starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Actions for observations [N, ...]."""
        action = torch.as_tensor(self._greedy(observation))
        values = torch.nn.functional.one_hot(action, self._num_actions).float()
        return epsilon_greedy(values, self._epsilon, self._rng).numpy()


def load_policy(run: RunDir, config: RunConfig) -> tuple[Callable[[NDArray], NDArray], int]:
    """The greedy policy of a finished run, and its number of actions."""
    if config.agent.algorithm == "rainbow":
        from visr.paper.baselines.rainbow import agent as rainbow

        return rainbow.load(run, config)
    with needing("stable_baselines3", "baselines"):
        from visr.paper.baselines import sb3
        from visr.paper.baselines.simple import agent as simple
    if config.agent.algorithm == "simple":
        return simple.load(run, config)
    model = sb3.load(run, config)
    num_actions = int(model.action_space.n)  # pyright: ignore
    return lambda seen: model.predict(seen, deterministic=True)[0], num_actions


def evaluate(run: RunDir, *, num_trials: int = two_phase.NUM_TRIALS, seed: int = 0) -> PhaseTwo:
    """Play 30 episodes as trained and 30 with random actions, and write phase_two.json."""
    config = run.config()
    policy, num_actions = load_policy(run, config)
    scores = []
    for name, epsilon in ((AS_TRAINED, config.agent.epsilon), (UNTRAINED, 1.0)):
        player = BaselineActor(policy, num_actions, epsilon, seed)
        env = envs.make_vec(config, min(10, num_trials))
        one = TaskSchedule(lambda: np.ones(1, dtype=np.float32))
        scores.append(two_phase.score(player, env, config, name, one, num_trials, seed + 1))
        env.close()
    result = PhaseTwo({}, two_phase.to_record(config, config.training.num_steps, scores))
    result.save(run)
    return result
