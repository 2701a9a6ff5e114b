"""DQN and PPO, trained by Stable-Baselines3 and saved as runs of visr.

Settings follow Mnih et al. (2015) for DQN and Schulman et al. (2017) for PPO; docs/agents/index.md lists the
differences. A killed training starts over, because its replay buffer is not saved.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import safetensors
import safetensors.torch
from gymnasium.spaces import Box, Space
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import Tensor

from visr.config import RunConfig
from visr.errors import UserError
from visr.networks import conv_torsos
from visr.paper.baselines.env import BaselineEnv
from visr.storage import new_files
from visr.storage.files import write_tensors
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows
from visr.training import checkpoint

Model = DQN | PPO
_PPO_ENVS = 8
_MAX_REPLAY_STEPS = 100_000
"""The paper's million steps would take 28 GB of Atari's screens."""


class SmallImageTorso(BaseFeaturesExtractor):
    """The network of Young and Tian (2019), for images too small for Stable-Baselines3's networks."""

    def __init__(self, observation_space: Space) -> None:
        assert isinstance(observation_space, Box)
        torso = conv_torsos.build("auto", observation_space.shape, brightest=1)
        super().__init__(observation_space, torso.size)
        self.torso = torso

    def forward(self, observations: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, size]"""
        return self.torso(observations)


def train(run: RunDir, config: RunConfig) -> None:
    """Train from scratch to the last step, then save the weights; do nothing if they are saved already."""
    if run.checkpoints():
        return
    env = BaselineVecEnv(config, _PPO_ENVS if config.agent.algorithm == "ppo" else 1)
    num_steps = config.training.num_steps
    model = build(config, env)
    if not run.config_file.exists():
        RunDir.create(run.path, config)
    new_files.remove(run.online)
    try:
        model.learn(num_steps, callback=_ReturnRows(run, env, config.training.log_every))
    finally:
        env.close()
    # Some weights share memory, which the file format does not permit: clone them all.
    weights = model.policy.state_dict().items()
    copies = {name: weight.detach().cpu().contiguous().clone() for name, weight in weights}
    write_tensors(run.checkpoint(num_steps), safetensors.torch.save(copies))


def load(run: RunDir, config: RunConfig) -> Model:
    """The policy of a finished run."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    env = BaselineVecEnv(config, 1)
    model = build(config, env)
    env.close()
    try:
        model.policy.load_state_dict(checkpoint.weights(checkpoints[-1]))
    except (OSError, safetensors.SafetensorError, RuntimeError, ValueError):
        raise UserError(
            f"{checkpoints[-1]} is damaged or does not fit its run's config.json; move it away, "
            f"and `visr pretrain --resume {run.path}` trains it again."
        ) from None
    return model


def build(config: RunConfig, env: BaselineVecEnv) -> Model:
    """The model with initial weights that depend on nothing but the seed."""
    shared: dict[str, Any] = {
        **policy_network(env.observation_space),
        "env": env,
        "gamma": config.agent.gamma,
        "seed": config.training.seed,
        "device": config.training.device,
    }
    num_steps = config.training.num_steps
    with warnings.catch_warnings():  # it does not recognise the observations as images
        warnings.simplefilter("ignore")
        if config.agent.algorithm == "ppo":
            return PPO(
                **shared,
                learning_rate=lambda left: 2.5e-4 * left,
                n_steps=128,
                batch_size=256,
                n_epochs=4,
                clip_range=0.1,
                ent_coef=0.01,
                vf_coef=0.5,
                max_grad_norm=0.5,
                gae_lambda=0.95,
            )
        return DQN(
            **shared,
            learning_rate=1e-4,
            buffer_size=min(num_steps, _MAX_REPLAY_STEPS),
            learning_starts=min(50_000, num_steps // 20),
            batch_size=32,
            train_freq=4,
            target_update_interval=min(10_000, max(num_steps // 100, 1)),
            exploration_fraction=0.1,
            exploration_final_eps=0.1,
        )


def policy_network(space: Space) -> dict[str, Any]:
    """The arguments of Stable-Baselines3 that choose a network for these observations."""
    small = conv_torsos.is_image(space) and min((space.shape or ())[1:]) < 36
    network = (
        {"features_extractor_class": SmallImageTorso, "normalize_images": False} if small else {}
    )
    name = "CnnPolicy" if conv_torsos.is_image(space) else "MlpPolicy"
    return {"policy": name, "policy_kwargs": network}


class _ReturnRows(BaseCallback):
    """Writes rows of online.csv: raw returns of the episodes that ended since the last row."""

    def __init__(self, run: RunDir, env: BaselineVecEnv, every: int) -> None:
        super().__init__()
        self._run, self._env, self._every, self._next = run, env, every, every

    def _on_step(self) -> bool:
        returns = self._env.returns
        if self.num_timesteps >= self._next and returns:
            self._next = (self.num_timesteps // self._every + 1) * self._every
            row = [self.num_timesteps, float(len(returns)), sum(returns) / len(returns)]
            append_rows(self._run.online, ["num_steps", "num_episodes", "mean_return"], [row])
            returns.clear()
        return True


class BaselineVecEnv(DummyVecEnv):
    """Environments whose seeds depend on the run's; `returns` are raw, and the reader clears them."""

    def __init__(self, config: RunConfig, num_envs: int) -> None:
        self.returns: list[float] = []
        super().__init__([lambda: BaselineEnv(config, self.returns)] * num_envs)
        self.seed(config.training.seed)

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Set the seeds of the next `reset`."""
        self._seeds = np.random.SeedSequence([seed or 0, 1]).generate_state(self.num_envs).tolist()
        return self._seeds
