"""Play one environment step by step, with a picture of each step, or whole episodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from visr import arguments, envs
from visr.agents.base import Agent
from visr.agents.epsilon_greedy_actor import EpsilonGreedyActor
from visr.config import RunConfig
from visr.envs.episodes import Episode, EpisodeSteps
from visr.inference.asked_reward import AskedReward
from visr.inference.collect import features
from visr.play import rendering
from visr.play.rendering import Picture, Screen
from visr.storage.records.task import Task


class Session:
    """Plays one episode after another, one `step` at a time; call `begin` first.

    The actor's `epsilon` and `gpi` may change between steps, and so may the task.
    """

    def __init__(
        self,
        agent: Agent,
        config: RunConfig,
        *,
        epsilon: float,
        gpi: bool | None = None,
        seed: int = 0,
        screen: Screen | None = None,
        asked: AskedReward | None = None,
    ) -> None:
        self._agent, self._screen, self.asked = agent, screen, asked
        self._env = envs.make_vec(config, 1)
        random = torch.Generator().manual_seed(seed)
        self.actor = EpsilonGreedyActor(agent, 1, epsilon=epsilon, gpi=gpi, random=random)
        self.picture: Picture | None = None
        self.action: int | None = None
        """The last action; None at the start of an episode."""
        self.values: NDArray[np.float32] | None = None
        """[actions], Q in the state of that action."""
        self.num_steps, self.score, self.reward, self.is_over = 0, 0.0, 0.0, True
        self.asked_reward, self.asked_return = 0.0, 0.0
        """Of the last step and of the episode; 0 without an asked reward."""

    def begin(self, seed: int) -> None:
        """Start a new episode with that seed."""
        self.observation, _ = self._env.reset(seed=seed)
        self._before, self._terminated = None, np.array([False])
        self._starts = np.array([True])
        self.picture = self._screen.reset(self.observation, seed) if self._screen else None
        self.num_steps, self.score, self.reward, self.is_over = 0, 0.0, 0.0, False
        self.asked_reward, self.asked_return = 0.0, 0.0
        self.action = self.values = None

    def pursue(self, task: Task, asked: AskedReward | None) -> None:
        """Pursue another task from the next step on; its return starts at 0."""
        self.actor.pursue(task.w)
        self.asked, self.asked_reward, self.asked_return = asked, 0.0, 0.0
        if self._screen and self.picture is not None:
            tinted = self._screen.tint(self.observation, task.reward)
            self.picture = self.picture if tinted is None else tinted

    def step(self, action_taken: int | None = None) -> None:
        """Take one action: the policy's, or `action_taken`."""
        before, action = self.observation, self.actor.act(self.observation, self._starts)
        self._before = before
        if action_taken is not None:
            action = np.full_like(action, action_taken)
            self.actor.took(action)
        self.observation, reward, terminated, truncated, _ = self._env.step(action)
        if self.asked:
            step = EpisodeSteps(
                np.zeros(1, np.intp), before, action, self.observation, reward, terminated
            )
            self.asked_reward = float(self.asked.of(step)[0])
            self.asked_return += self.asked_reward
        if self._screen:
            self.picture = self._screen.step(self.observation, action)
        self._terminated = terminated
        self.action, self.values = int(action[0]), self.actor.values[0].numpy()
        self.num_steps, self.reward = self.num_steps + 1, float(reward[0])
        self.score, self._starts = self.score + self.reward, np.array([False])
        self.is_over = bool(terminated[0] or truncated[0])

    def features(self) -> NDArray[np.float32]:
        """phi of the last step, [d]; at the start of an episode of the observation alone."""
        return features(self._agent, self.observation, self._before, self._terminated)[0]

    def close(self) -> None:
        """Close the environment and the screen."""
        self._env.close()
        if self._screen:
            self._screen.close()


_MOST, _MOST_ON_ENDLESS_GRID = 4_500, 100
"""Steps of an episode that does not end before; on a grid the agent arrives earlier."""


@arguments.checked
def play(
    agent: Agent,
    config: RunConfig,
    task: Task,
    asked: AskedReward | None = None,
    *,
    video: Path | None = None,
    num_episodes: int = 1,
    max_steps: int | None = None,
    epsilon: float | None = None,
    seed: int = 0,
) -> list[Episode]:
    """Play episodes with one task, and record them if `video` names a file."""
    writer = rendering.video_writer(video, config.env) if video else None
    screen = rendering.screen(config, task.reward) if video else None
    epsilon = config.agent.exploration if epsilon is None else epsilon
    is_endless = config.is_grid and not config.grid.max_episode_steps
    most = max_steps or (_MOST_ON_ENDLESS_GRID if is_endless else _MOST)
    session = Session(agent, config, epsilon=epsilon, seed=seed, screen=screen, asked=asked)
    session.actor.pursue(task.w)

    def record() -> None:
        if screen and writer and session.picture is not None:
            shown = session.asked_return if asked else session.score
            words = f"{task.name}   step {session.num_steps}   return {shown:g}"
            picture = rendering.enlarged(session.picture, screen.scale)
            writer.add(rendering.captioned(picture, words))

    episodes: list[Episode] = []
    try:
        for number in range(num_episodes):
            session.begin(seed + number)
            record()
            while not session.is_over and session.num_steps < most:
                session.step()
                record()
            ended = (session.score, session.num_steps, session.is_over, session.asked_return)
            episodes.append(Episode(task.w.astype(np.float32), *ended))
    finally:
        session.close()
        if writer:
            writer.close(keep=len(episodes) == num_episodes)
    return episodes
