"""The world model: predictions for a simulated environment, and its training with scheduled sampling."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from visr.ops.adam import Adam
from visr.paper.baselines.simple.network import REWARDS, Outputs, WorldNetwork
from visr.paper.baselines.simple.real_steps import Sequences
from visr.training.learner import within

_MAX_GRADIENT_NORM = 100.0


class Prediction(NamedTuple):
    """One simulated step of N environments."""

    frame: Tensor
    """[N, C, H, W] uint8"""
    reward: Tensor
    """[N] float32"""
    terminated: Tensor
    """[N] bool"""


class WorldModel(Protocol):
    """Anything that can stand in for an environment."""

    def predict(self, history: Tensor, action: Tensor, rng: torch.Generator) -> Prediction:
        """One step from the last frames [N, K, ...] with actions [N]."""
        ...


class LearnedModel:
    """A `WorldModel` by a network: bits from the prior, the most likely frame, the expected reward."""

    def __init__(self, network: WorldNetwork) -> None:
        self._network = network

    @torch.inference_mode()
    def predict(self, history: Tensor, action: Tensor, rng: torch.Generator) -> Prediction:
        """The end of the episode is drawn with its probability."""
        predicted = self._network(history, action, rng)
        frame = self._network.distribution.mode(predicted.logits)
        reward = predicted.reward.softmax(dim=-1) @ torch.tensor(REWARDS)
        ends = torch.rand(len(action), generator=rng) < predicted.end.sigmoid()
        return Prediction(frame, reward, ends)


class ModelLearner:
    """Adam on -log p(frame, reward, end | bits) + KL(posterior || prior)."""

    def __init__(self, network: WorldNetwork, learning_rate: float) -> None:
        self.network = network
        self._optimiser = Adam(network.parameters(), lr=learning_rate)
        self.num_updates = 0

    def update(
        self, batch: Sequences, share_predicted: float, rng: torch.Generator
    ) -> dict[str, float]:
        """One update; each input frame after the first is the model's own with this probability."""
        history, sums = batch.history, torch.zeros(4)
        count = batch.is_valid.sum().clamp(min=1)
        for t in range(batch.action.shape[1]):
            next_frame = batch.next_frame[:, t]
            predicted = self.network(history, batch.action[:, t], rng, next_frame)
            losses = _losses(self.network, predicted, batch, t)
            sums = sums + (losses * batch.is_valid[:, t]).sum(dim=1)
            own = torch.rand(len(next_frame), generator=rng) < share_predicted
            mode = self.network.distribution.mode(predicted.logits.detach())
            frame = torch.where(own.view(-1, 1, 1, 1), mode, next_frame)
            history = torch.cat([history[:, 1:], frame.unsqueeze(1)], dim=1)
        means = sums / count
        self._optimiser.zero_grad()
        means.sum().backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), _MAX_GRADIENT_NORM)
        self._optimiser.step()
        self.num_updates += 1
        names = ("frame_loss", "reward_loss", "end_loss", "kl")
        return dict(zip(names, means.detach().tolist(), strict=True))

    def state(self) -> dict[str, Tensor]:
        """Weights and Adam's state."""
        tensors = {f"network.{k}": v for k, v in self.network.state_dict().items()}
        return tensors | {f"adam.{k}": v for k, v in self._optimiser.moments().items()}

    def load_state(self, tensors: dict[str, Tensor], num_updates: int) -> None:
        self.network.load_state_dict(within(tensors, "network."))
        self._optimiser.load_moments(within(tensors, "adam."))
        self.num_updates = num_updates


def _losses(network: WorldNetwork, predicted: Outputs, batch: Sequences, t: int) -> Tensor:
    """Losses of frame, reward and end, and the KL, in nats: [4, N]"""
    frame = network.distribution.loss(predicted.logits, batch.next_frame[:, t])
    classes = batch.reward[:, t].sign().long() + 1
    reward = functional.cross_entropy(predicted.reward, classes, reduction="none")
    ended = batch.terminated[:, t].float()
    end = functional.binary_cross_entropy_with_logits(predicted.end, ended, reduction="none")
    return torch.stack([frame, reward, end, predicted.kl])
