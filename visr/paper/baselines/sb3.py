"""DQN and PPO: trained by Stable-Baselines3, kept as we keep runs.

Settings follow Mnih et al. (2015) for DQN and Schulman et al. (2017) for PPO; docs/agents.md has the
differences. A training that is killed begins anew: replay memories are not kept.
"""

from __future__ import annotations

import warnings
from typing import Any

import safetensors
import safetensors.torch
import torch
from gymnasium.spaces import Box, Space
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from visr.config import RunConfig
from visr.errors import UserError
from visr.networks import images
from visr.paper.baselines.sb3_envs import Games
from visr.storage import checksums
from visr.storage.files import write_tensors
from visr.storage.run_dir import RunDir
from visr.storage.tables import append_rows

Model = DQN | PPO
_PPO_ENVS = 8
_LARGEST_REPLAY = 100_000
"""Steps: the paper's million would be 28 GB of Atari's screens."""


class Torso(BaseFeaturesExtractor):
    """MinAtar's network of Young and Tian (2019), for images too small for Stable-Baselines3's own."""

    def __init__(self, observation_space: Space) -> None:
        assert isinstance(observation_space, Box)
        torso = images.build("auto", observation_space.shape, brightest=1)
        super().__init__(observation_space, torso.size)
        self.torso = torso

    def forward(self, observations: Tensor) -> Tensor:
        """[N, C, H, W] -> [N, size]"""
        return self.torso(observations)


def train(run: RunDir, config: RunConfig) -> None:
    """From nothing to the last step; only a finished training leaves its weights."""
    if not run.config_file.exists():
        RunDir.create(run.path, config)
    if run.checkpoints():
        return
    run.online.unlink(missing_ok=True)
    games = _games(config)
    num_steps = config.training.num_steps
    model = build(config, games)
    try:
        model.learn(num_steps, callback=_Returns(run, games, config.training.log_every))
    finally:
        games.close()
    weights = {k: v.detach().cpu().contiguous() for k, v in model.policy.state_dict().items()}
    write_tensors(run.checkpoint(num_steps), safetensors.torch.save(_apart(weights)))


def load(run: RunDir, config: RunConfig) -> Model:
    """A finished run's policy; only tensors are read."""
    checkpoints = run.checkpoints()
    if not checkpoints:
        raise UserError(f"{run.path} has not finished its training; train it to the end first.")
    games = Games(config, 1)
    model = build(config, games)
    games.close()
    try:
        checksums.check(checkpoints[-1])
        model.policy.load_state_dict(safetensors.torch.load_file(checkpoints[-1]))
    except (OSError, safetensors.SafetensorError, RuntimeError, ValueError):
        raise UserError(
            f"{checkpoints[-1]} is damaged or does not fit its run's config.json; move it away, "
            f"and `visr pretrain --resume {run.path}` trains it anew."
        ) from None
    return model


def _games(config: RunConfig) -> Games:
    return Games(config, _PPO_ENVS if config.agent.algorithm == "ppo" else 1)


def build(config: RunConfig, games: Games) -> Model:
    """The model with fresh weights that only the seed decides."""
    space = games.observation_space
    small = images.is_image(space) and min((space.shape or ())[1:]) < 36
    network = {"features_extractor_class": Torso, "normalize_images": False} if small else {}
    shared: dict[str, Any] = {
        "policy": "CnnPolicy" if images.is_image(space) else "MlpPolicy",
        "env": games,
        "gamma": config.agent.gamma,
        "seed": config.training.seed,
        "device": config.training.device,
        "policy_kwargs": network,
    }
    with warnings.catch_warnings():  # that observations are not what it takes for an image
        warnings.simplefilter("ignore")
        if config.agent.algorithm == "ppo":
            return _ppo(shared)
        return _dqn(shared, config.training.num_steps)


def _dqn(shared: dict[str, Any], num_steps: int) -> DQN:
    return DQN(
        **shared,
        learning_rate=1e-4,
        buffer_size=min(num_steps, _LARGEST_REPLAY),
        learning_starts=min(50_000, num_steps // 20),
        batch_size=32,
        train_freq=4,
        target_update_interval=min(10_000, max(num_steps // 100, 1)),
        exploration_fraction=0.1,
        exploration_final_eps=0.1,
    )


def _ppo(shared: dict[str, Any]) -> PPO:
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


class _Returns(BaseCallback):
    """Rows of online.csv: raw returns of the games that ended since the last row."""

    def __init__(self, run: RunDir, games: Games, every: int) -> None:
        super().__init__()
        self._run, self._games, self._every, self._next = run, games, every, every

    def _on_step(self) -> bool:
        returns = self._games.returns
        if self.num_timesteps >= self._next and returns:
            self._next = (self.num_timesteps // self._every + 1) * self._every
            row = [self.num_timesteps, float(len(returns)), sum(returns) / len(returns)]
            append_rows(self._run.online, ["num_steps", "num_episodes", "mean_return"], [row])
            returns.clear()
        return True


def _apart(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights that share memory, each with its own: the file format wants it so."""
    return {name: torch.clone(weight) for name, weight in weights.items()}
