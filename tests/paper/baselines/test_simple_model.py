"""SimPLe's world model: its prior by hand, its inputs, and what it learns from few recorded steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

from visr import config as configuration
from visr.config import presets
from visr.paper.baselines.env import BaselineEnv
from visr.paper.baselines.simple import MINATAR, SimpleConfig, accuracy, scaled
from visr.paper.baselines.simple.frame_distributions import BinaryPlanes, Pixels, distribution_of
from visr.paper.baselines.simple.model import LearnedModel, ModelLearner
from visr.paper.baselines.simple.network import AutoregressivePrior, WorldNetwork
from visr.paper.baselines.simple.real_steps import RealSteps, draw

SMALL = replace(MINATAR, widths=(24, 32), num_bits=8)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(config: SimpleConfig = SMALL, channels: int = 4) -> WorldNetwork:
    torch.manual_seed(0)
    return WorldNetwork((channels, 10, 10), 3, BinaryPlanes(channels), config)


def numbered(*episodes: int, history: int = 4) -> RealSteps:
    """Episodes of so many steps; the n-th frame ever is a single cell of value n, from 1."""
    steps, n = RealSteps(np.zeros((1, 1, 1), np.uint8), 100, history), 0
    for length in episodes:
        for step in range(length):
            n += 1
            steps.add(np.full((1, 1, 1), n, np.uint8), n % 3, float(n), step == length - 1)
        n += 1
        steps.end_episode(np.full((1, 1, 1), n, np.uint8))
    return steps


def test_a_history_stops_at_the_start_of_its_episode():
    steps = numbered(2, 3)  # frames 1 2 | 3 (last), 4 5 6 | 7 (last)
    entries = np.array([0, 1, 3, 5])
    assert steps.histories(entries).flatten(1).tolist() == [
        [0, 0, 0, 1],
        [0, 0, 1, 2],
        [0, 0, 0, 4],
        [0, 4, 5, 6],
    ]


def test_a_sequence_ends_with_its_episode():
    steps = numbered(2, 3)
    found = steps.sequences(np.array([0, 3, 5]), length=3)
    assert found.is_valid.tolist() == [[True, True, False], [True] * 3, [True, False, False]]
    assert found.next_frame[0, :2].flatten().tolist() == [2, 3]
    assert found.next_frame[1].flatten().tolist() == [5, 6, 7]
    assert found.reward[1].tolist() == [4, 5, 6]
    assert found.terminated[1].tolist() == [False, False, True]


def test_held_out_steps_never_train():
    steps = numbered(6)
    steps.held_out = [(4, 7)]
    assert steps.candidates(held_out=False).tolist() == [0, 1, 2, 3]
    assert steps.candidates(held_out=True).tolist() == [4, 5]
    found = steps.sequences(np.array([2]), length=4, held_out=False)
    assert found.is_valid.tolist() == [[True, True, False, False]]


def test_the_prior_is_autoregressive_and_its_samples_follow_it():
    torch.manual_seed(0)
    prior = AutoregressivePrior(num_bits=3, hidden=4)
    context = torch.randn(1, 4)
    bits = torch.tensor([[1.0, 0.0, 1.0]])
    # h_3 = relu(context + 1 V_1 + 0 V_2), logit_3 = U_3 . h_3 + c_3
    by_hand = (context + prior.into[0]).relu() @ prior.out[2] + prior.bias[2]
    assert prior(context, bits)[0, 2].item() == pytest.approx(by_hand.item(), abs=1e-6)
    changed = prior(context, torch.tensor([[1.0, 0.0, 0.0]]))
    assert torch.equal(changed, prior(context, bits))  # a bit does not see itself
    with torch.no_grad():
        drawn = prior.sample(context.expand(20_000, 4), rng())
        first = prior(context, bits).sigmoid()[0, 0].item()
        given = drawn[(drawn[:, 0] == 1) & (drawn[:, 1] == 0)]
        third = prior(context, bits).sigmoid()[0, 2].item()
    assert drawn[:, 0].mean().item() == pytest.approx(first, abs=0.02)
    assert given[:, 2].mean().item() == pytest.approx(third, abs=0.03)


def test_gradients_pass_the_rounded_bits():
    net = network()
    frames = torch.randint(0, 2, (5, 4, 4, 10, 10), dtype=torch.uint8)
    said = net(frames, torch.arange(5) % 3, rng(), frames[:, 0])
    net.distribution.loss(said.logits, frames[:, 0]).sum().backward()
    last = net.posterior[-1]
    assert isinstance(last, torch.nn.Linear)
    assert last.weight.grad is not None
    assert last.weight.grad.abs().sum() > 0


def test_equal_posterior_and_prior_cost_nothing_and_others_something():
    net = network()
    frames = torch.zeros(2, 4, 4, 10, 10, dtype=torch.uint8)
    said = net(frames, torch.tensor([0, 1]), rng(), frames[:, 0])
    assert (said.kl > 0).all()
    for part in (net.posterior[-1], net.prior):
        for weight in part.parameters():
            torch.nn.init.zeros_(weight)
    assert net(frames, torch.tensor([0, 1]), rng(), frames[:, 0]).kl.abs().max() < 1e-6


def test_scheduled_sampling_feeds_predictions_back(monkeypatch: pytest.MonkeyPatch):
    steps = breakout(40)
    batch = steps.sequences(steps.candidates()[:4], length=2)
    seen: list[torch.Tensor] = []
    for share in (0.0, 1.0):
        learner = ModelLearner(network(), 1e-3)
        forward = learner.network.forward

        def watch(history, action, rng, next_frame=None, forward=forward):
            seen.append(history)
            return forward(history, action, rng, next_frame)

        monkeypatch.setattr(learner.network, "forward", watch)
        learner.update(batch, share, rng())
    real, predicted = seen[1][:, -1], seen[3][:, -1]
    assert torch.equal(real, batch.next_frame[:, 0])
    assert not torch.equal(predicted, real)


def test_pixels_are_levels_of_a_softmax():
    space = Box(0, 255, (1, 2, 2), np.uint8)
    pixels = distribution_of(space, 1)
    assert isinstance(pixels, Pixels)
    frame = torch.tensor([[[[0, 17], [200, 255]]]], dtype=torch.uint8)
    logits = torch.nn.functional.one_hot(frame[:, 0].long(), 256).permute(0, 3, 1, 2) * 50.0
    assert torch.equal(pixels.mode(logits), frame)
    assert pixels.loss(logits, frame).item() == pytest.approx(4 * 0.03)  # clipped from below
    assert pixels.loss(-logits, frame).item() > 4 * 50


def test_a_model_of_atari_screens_predicts_bytes():
    config = replace(SMALL, widths=(4, 8, 8, 8, 8))
    net = WorldNetwork((1, 84, 84), 4, Pixels(1), config)
    said = LearnedModel(net).predict(
        torch.randint(0, 256, (2, 4, 1, 84, 84), dtype=torch.uint8), torch.tensor([0, 3]), rng()
    )
    assert said.frame.shape == (2, 1, 84, 84)
    assert said.frame.dtype == torch.uint8


def breakout(num_steps: int) -> RealSteps:
    """Recorded steps of a random player, all of them marked as held out too."""
    env = BaselineEnv(configuration.replace(presets.get("minatar"), env="MinAtar/Breakout-v1"), [])
    observation, _ = env.reset(seed=0)
    steps, random = RealSteps(observation, num_steps, 4), np.random.default_rng(0)
    for _ in range(num_steps):
        action = int(random.integers(3))
        after, reward, terminated, _, _ = env.step(action)
        steps.add(observation, action, reward, terminated)
        if env.has_ended:
            steps.end_episode(after)
            after, _ = env.reset()
        observation = after
    steps.end_episode(observation)
    env.close()
    return steps


def test_the_model_overfits_200_recorded_steps_of_breakout():
    steps, learner, random = breakout(200), ModelLearner(network(), 2e-3), rng()
    entries = steps.candidates()
    for update in range(300):
        batch = steps.sequences(draw(entries, 32, random), 2)
        learner.update(batch, min(1.0, update / 150), random)
    steps.held_out = [(0, steps.buffer.num_added)]  # measured on the same steps
    found = accuracy.one_step(LearnedModel(learner.network), steps, random)
    assert found["copy_accuracy"] < 0.99  # repeating the last frame would not pass
    assert found["plane_accuracy"] > 0.99
    assert found["object_accuracy"] > 0.98
    assert found["changed_accuracy"] > 0.95
    assert found["reward_found"] > 0.8


def test_accuracies_count_what_they_say():
    steps = numbered(2)
    steps.buffer.storage.observation[:3] = torch.tensor([0, 0, 1], dtype=torch.uint8).view(
        3, 1, 1, 1
    )
    steps.held_out = [(0, 3)]

    class Empty:
        """Predicts that nothing is there."""

        def predict(self, history, action, rng):
            from visr.paper.baselines.simple.model import Prediction

            size = len(action)
            return Prediction(history[:, -1] * 0, torch.zeros(size), torch.zeros(size).bool())

    found = accuracy.one_step(Empty(), steps, rng())
    # Half of the drawn steps lead from 0 to 0, the others from 0 to 1.
    assert found["plane_accuracy"] == pytest.approx(0.5, abs=0.1)
    assert found["copy_accuracy"] == found["plane_accuracy"]
    assert (found["object_accuracy"], found["changed_accuracy"]) == (0.0, 0.0)
    imagined = accuracy.rollouts(Empty(), steps, 2, rng())
    assert imagined.overlap[1] == 0.0
    assert imagined.count[0] == 64


def test_no_reward_is_predicted_after_a_predicted_end():
    class Ends:
        """Predicts a reward and the end at every step."""

        def predict(self, history, action, rng):
            from visr.paper.baselines.simple.model import Prediction

            size = len(action)
            return Prediction(history[:, -1], torch.ones(size), torch.ones(size).bool())

    steps = numbered(3)  # every real reward is positive, so 1
    assert accuracy.rollouts(Ends(), steps, 2, rng()).reward_error.tolist() == [0.0, 1.0]


def test_short_runs_do_less_work_and_the_published_length_all():
    assert scaled(MINATAR, 100_000) == MINATAR
    assert scaled(MINATAR, 1_000_000) == MINATAR
    short = scaled(MINATAR, 1_000)
    assert short.num_iterations == 10
    assert short.num_iterations * short.model_updates == pytest.approx(15 * 200 / 100, rel=0.1)
