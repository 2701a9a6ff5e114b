"""What a trained baseline scores, in the words of every other agent's rewarded phase."""

from __future__ import annotations

from typing import Any

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray

from visr import envs, seal
from visr.baselines import training
from visr.baselines.games import Games
from visr.config import RunConfig
from visr.errors import UserError
from visr.ops.gpi import epsilon_greedy
from visr.run_dir import RunDir
from visr.tasks import phase_two, protocol
from visr.tasks.episodes import Choice


class Player:
    """Acts as the policy says; at random with probability epsilon."""

    task_size = 1

    def __init__(self, model: training.Model, epsilon: float, seed: int) -> None:
        self._model, self._epsilon = model, epsilon
        self._random = torch.Generator().manual_seed(seed)

    def pursue(self, w: Any) -> None:
        """It pursues what it was trained for."""

    def act(self, observation: NDArray, starts: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Actions for observations [N, ...]."""
        action, _ = self._model.predict(observation, deterministic=True)
        num_actions = int(self._model.action_space.n)  # pyright: ignore
        wishes = torch.nn.functional.one_hot(torch.as_tensor(action), num_actions).float()
        return epsilon_greedy(wishes, self._epsilon, self._random).numpy()


def load(run: RunDir, config: RunConfig) -> training.Model:
    """A finished run's policy; only tensors are read."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    games = Games(config, 1)
    model = training.build(config, games)
    games.close()
    try:
        seal.check(checkpoints[-1])
        model.policy.load_state_dict(safetensors.torch.load_file(checkpoints[-1]))
    except (OSError, safetensors.SafetensorError, RuntimeError, ValueError):
        raise UserError(
            f"{checkpoints[-1]} is damaged or does not fit its run's config.json; move it away, "
            f"and `visr pretrain --resume {run.path}` trains it anew."
        ) from None
    return model


def evaluate(
    run: RunDir, *, num_trials: int = protocol.NUM_TRIALS, seed: int = 0
) -> dict[str, Any]:
    """30 episodes as trained and 30 of random actions, written to phase_two.json."""
    config = run.config()
    model = load(run, config)
    scores = []
    for name, epsilon in ((protocol.AS_TRAINED, config.agent.epsilon), (protocol.UNTRAINED, 1.0)):
        player = Player(model, epsilon, seed)
        env = envs.make_vec(config, min(10, num_trials))
        one = Choice(lambda: np.ones(1, dtype=np.float32))
        scores.append(protocol.score(player, env, config, name, one, num_trials, seed + 1))
        env.close()
    result = phase_two.PhaseTwo(protocol.NOTHING, {}, scores)
    return phase_two.save(run, result, config, config.training.num_steps)
