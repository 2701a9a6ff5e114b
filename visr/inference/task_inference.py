"""From what a user gives to a task of one agent: every prompt, and the steps that prompts need."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike, NDArray

from visr import arguments, envs
from visr import config as configuration
from visr.agents.base import BehaviourModel
from visr.agents.replay_successor_features import ReplaySuccessorFeatures
from visr.config import RunConfig
from visr.envs.observations import encoded_parts
from visr.envs.spaces import SpaceCodec
from visr.errors import UserError, short_repr
from visr.inference import (
    collect,
    compare_methods,
    dataset,
    diagnosis,
    goal,
    grid_rewards,
    preferences,
    prompts,
    recording,
)
from visr.inference.asked_reward import asked_reward
from visr.inference.demonstration import Demonstration
from visr.inference.preferences import Preferences
from visr.inference.prompts import ENV_REWARD, Prompt, Reward
from visr.inference.recording import Recording
from visr.inference.regression import Comparison
from visr.inference.steps import RewardedSteps
from visr.storage.records.task import Task, TaskPrompt
from visr.storage.run_dir import RunDir
from visr.training import devices

_CELL_SETTINGS = ("centred", "ridge", "whitened")


class TaskInference:
    """Tasks of one pre-trained agent."""

    def __init__(
        self,
        agent: BehaviourModel,
        config: RunConfig,
        codec: SpaceCodec,
        directory: RunDir,
        num_steps: int,
    ) -> None:
        self.agent, self.config, self.codec, self._directory = agent, config, codec, directory
        self._num_steps = num_steps
        self.world = envs.exact_model(config)

    # ---- prompts

    def prompt(self, **given: Any) -> Prompt:
        """The prompt of the one argument that is not None: reward, goal, demonstration or preferences."""
        named = {kind: value for kind, value in given.items() if value is not None}
        if len(named) != 1:
            raise UserError(
                "Say what you want in one way: a reward, a goal, a demonstration or preferences."
            )
        ((kind, value),) = named.items()
        make: dict[str, Callable[[Any], Prompt]] = {
            "reward": self._reward,
            "goal": self._goal,
            "demonstration": self._demonstration,
            "preferences": self._preferences,
        }
        return make[kind](value)

    def compare(self, prompt: Prompt, **settings: Any) -> Comparison:
        """The estimates of every method that suits the prompt."""
        if settings and not isinstance(prompt, Reward):
            raise UserError(f"{', '.join(settings)}: only rewards take settings; leave it out.")
        with devices.threads(self.config.training):
            return prompt.infer(self.agent, lambda: self._steps(prompt, settings))

    def to_task(self, prompt: Prompt, compared: Comparison, method: str = "best") -> Task:
        """One method's estimate as a task that keeps its prompt."""
        record = prompt.record()
        task = prompts.to_task(compared, method, prompt.name, self.config.env, record)
        if record.kind == "dataset":
            return self._with_fit(task, prompt)
        if self.world is not None and record.kind == "goal":  # the exact reward of the goal's cell
            state = int(record.data["observation"][0])
            values = grid_rewards.goal(self.world, *divmod(state, self.world.width))
            return dataclasses.replace(task, reward=values)
        return task

    def _with_fit(self, task: Task, prompt: Prompt) -> Task:
        """Keep the scale and offset of the file's rewards, which the task alone does not tell."""
        fit, _ = compare_methods.fit_along(task.w, self._steps(prompt, {}))
        data = {"fit": np.array([float(fit.w[0]), float(fit.intercept)])}
        return dataclasses.replace(task, prompt=TaskPrompt("dataset", prompt.name, data))

    def of_cells(self, reward: str | ArrayLike, **fields: Any) -> Task:
        """The task of a reward over the cells of a grid; `fields` are centred, ridge and whitened."""
        assert self.world is not None
        if unknown := set(fields) - set(_CELL_SETTINGS) - set(vars(self.config.inference)):
            odd = ", ".join(sorted(unknown))
            raise UserError(
                f"infer takes centred, ridge, whitened and clip_rewards, but not {odd}."
            )
        config = configuration.replace(self.config, **fields).inference
        wanted = grid_rewards.of_cells(reward, self.world)
        prompt = Reward(wanted.name, config)
        compared = prompt.infer(self.agent, lambda: self._cells(wanted.values))
        record = TaskPrompt("cells", wanted.name[:500])
        task = prompts.to_task(compared, "best", wanted.name, self.config.env, record)
        return dataclasses.replace(task, reward=wanted.values)

    def _cells(self, values: NDArray[np.float64]) -> RewardedSteps:
        """One step into every free cell of the grid, each an episode of its own."""
        assert self.world is not None
        free = np.flatnonzero(self.world.free)
        phi = collect.features(self.agent, np.arange(self.world.num_states)).astype(np.float64)
        return collect.of_agent(RewardedSteps(phi[free], values[free], free), self.agent)

    def _reward(self, given: Any) -> Reward:
        if not isinstance(given, str | Path) and not callable(given):
            raise UserError(
                f'{type(given).__name__} is no reward for {self.config.env}; give "env", an expression, a '
                "function or an .npz file."
            )
        if self.world is None and isinstance(given, str) and given.strip().startswith("goal:"):
            names = self.codec.field_names[:2] or ["x0"]
            example = ",".join(
                f"{name}={value}" for name, value in zip(names, (0.5, 0), strict=False)
            )
            raise UserError(
                f"{short_repr(given)} names a cell, and {self.config.env} is no grid; here a goal names "
                f'numbers of an observation: --goal "{example}".'
            )
        return Reward(prompts.name_of(given), given=given)

    def _goal(self, given: Any) -> goal.Goal:
        if isinstance(given, str):
            if self.world is not None and "," in given and "=" not in given:
                given = grid_rewards.parse(f"goal:{given}", self.world).values.argmax()  # row,col
            else:
                return goal.parse(given, self.codec, self.recording)
        state = self._encoded(given, "goal")
        if len(state) != 1:
            raise UserError(f"A goal is one observation, and this is {len(state)} of them.")
        return self.goal_of(state[0])

    def goal_of(self, state: NDArray) -> goal.Goal:
        """The goal that is one observation, as networks take it."""
        is_useful = self._is_recorded and self.world is None
        recorded = self.recording() if is_useful else None
        return goal.of_observation(_goal_name(state, self.world), state, recorded, self.codec)

    def _demonstration(self, given: Any) -> Demonstration:
        return self.beside_recorded(self._demonstrated(given))

    def beside_recorded(self, shown: Demonstration) -> Demonstration:
        """A demonstration that is compared with recorded states, or with cells, where there are some."""
        is_world, is_recorded = self.world is not None, self._is_recorded
        recorded = self.recording if is_recorded and not is_world else None
        known = is_world or is_recorded
        return dataclasses.replace(shown, has_reference=known, recorded=recorded)

    def _demonstrated(self, given: Any) -> Demonstration:
        """Observations, (observations, actions), or the name of an .npz file."""
        if isinstance(given, str | Path):
            steps = dataset.read(given, self.codec)
            if steps.before is None or steps.action is None:
                return Demonstration(Path(given).name, steps.reached)
            return _trajectory(Path(given).name, steps.before, steps.reached, steps.action)
        actions = None
        if (
            isinstance(given, tuple)
            and len(given) == 2
            and not isinstance(self.codec.own_space, spaces.Tuple)
        ):
            given, actions = given
        states = self._encoded(given, "demonstration")
        if actions is None:
            return Demonstration("demonstration", states)
        arrays = {
            "observations": states,
            "actions": arguments.array(actions, "The demonstration's actions"),
        }
        steps = dataset.from_arrays("The demonstration", arrays, self.codec)
        assert steps.before is not None
        assert steps.action is not None
        return _trajectory("demonstration", steps.before, steps.reached, steps.action)

    def _preferences(self, given: Any) -> Preferences:
        """Pairs (better, worse) or (one, other, "equal") of segments, or the name of a JSON file.

        A segment is [start, stop] in the recording, or observations.
        """
        name = "preferences"
        if isinstance(given, str | Path):
            path = arguments.path(given, "preferences")
            name, given = path.name, preferences.pairs_of_file(path)
        if not isinstance(given, Sequence) or not given:
            raise UserError("Preferences are pairs of segments: [(better, worse), ...].")
        recorded = self.recording().in_order() if self._is_recorded else None
        sums, is_equal = np.zeros((len(given), 2, self.agent.task_size)), np.zeros(len(given), bool)
        for number, pair in enumerate(given):
            is_pair = isinstance(pair, Sequence) and not isinstance(pair, str)
            if is_pair and len(pair) == 3 and isinstance(pair[2], str) and pair[2] == "equal":
                is_equal[number] = True
            elif not is_pair or len(pair) != 2:
                raise UserError(
                    f"Preference {number} is no pair of segments (better, worse); two that are as good "
                    'are (one, other, "equal").'
                )
            sums[number] = [self._segment(part, number, recorded) for part in pair[:2]]
        (better, worse), equal = sums[~is_equal].swapaxes(0, 1), sums[is_equal]
        prior = None
        if recorded is not None:
            prior = preferences.prior_of(self.agent, recorded.phi, recorded.episode)
        plural = "s" if len(sums) > 1 else ""
        gaps = equal[:, 0] - equal[:, 1]
        return Preferences(f"{len(sums)} preference{plural} ({name})", better, worse, gaps, prior)

    def _segment(self, given: Any, number: int, recorded: Recording | None) -> NDArray[np.float64]:
        """Summed phi of a segment: (start, stop) in the recording, or its observations."""
        is_range = (
            isinstance(given, Sequence)
            and len(given) == 2
            and all(
                arguments.is_number(i, is_whole=True) and not isinstance(i, bool) for i in given
            )
        )
        if not is_range:
            return collect.features(self.agent, self._encoded(given, "segment")).sum(axis=0)
        if recorded is None:
            recorded = self.recording()  # says why there is none
        start, stop = int(given[0]), int(given[1])
        if not 0 <= start < stop <= len(recorded.action):
            raise UserError(
                f"Preference {number} has the segment {short_repr(list(given))}; a segment is [start, stop] "
                f"with 0 <= start < stop <= {len(recorded.action)}, steps of the recording."
            )
        return preferences.segment_sums(recorded.phi, [(start, stop)])[0]

    def _encoded(self, given: Any, what: str) -> NDArray:
        """Observations [N, ...] as networks take them, from one or many of the environment's own."""
        if (parts := encoded_parts(self.codec, given)) is not None:
            return dataset.from_arrays(f"The {what}", {"observations": parts}, self.codec).reached
        array = arguments.array(given, f"The {what}")
        if array.shape in (self.codec.own_space.shape, self.codec.space.shape):
            array = array[None]
        return dataset.from_arrays(f"The {what}", {"observations": array}, self.codec).reached

    def diagnose(self, task: Task) -> diagnosis.Diagnosis | None:
        """What is known of a task before it is played, from steps that are known already."""
        agent, steps = self.agent, None
        if not isinstance(agent, ReplaySuccessorFeatures):
            return None
        if self.world is not None:
            steps = diagnosis.steps_of_world(self.world)
        elif self.has_recording:
            steps = diagnosis.steps_of_recording(agent, self.recording())
        asked = asked_reward(task, agent, self.codec)
        reward = None
        if steps is not None and asked.kind not in ("env", "features"):  # rewards that are known
            reward = asked.of(steps)
        planes, path = envs.plane_names(self.config), self._directory.library
        return diagnosis.diagnose(agent, task.w, path, steps, reward, planes)

    # ---- steps

    def _steps(self, prompt: Prompt, settings: Mapping[str, Any]) -> RewardedSteps:
        """Steps with the prompt's reward: played now, read from a file, or recorded ones."""
        if isinstance(prompt, goal.Goal):
            if self.world is not None:
                state = int(prompt.wanted.data["observation"][0])
                return self._cells(grid_rewards.goal(self.world, *divmod(state, self.world.width)))
            return goal.close_steps(prompt.wanted, self.recording())
        if isinstance(prompt, Demonstration):
            if self.world is not None:
                return self._cells(np.zeros(self.world.num_states))
            recorded = self.recording()
            return RewardedSteps(recorded.phi, np.zeros(len(recorded.phi)), recorded.episode)
        assert isinstance(prompt, Reward)
        counts = dict(settings)
        clip = counts.pop("clip_rewards", None)
        if prompt.given == ENV_REWARD:
            self.require_rewards()
            steps = collect.collect_rewarded(self.agent, self.config, **counts)
            clip = self.config.inference.clip_rewards if clip is None else clip
            return steps.clipped() if clip else steps
        if counts or clip is not None:
            raise UserError(
                'clip_rewards and counts belong to the environment\'s own reward, "env".'
            )
        if prompts.is_dataset(prompt.given):
            return dataset.read(prompt.given, self.codec).rewarded(self.agent, prompt.given)
        recorded = self.recording()
        return collect.of_agent(
            recorded.rewarded(prompt.given, self.codec), self.agent, recorded.before
        )

    def require_rewards(self) -> None:
        """Refuse an environment without rewards of its own."""
        if self.world is not None:
            raise UserError(
                f"{self.config.env} has no rewards of its own; describe one, such as goal:2,3 or boxes:7."
            )

    @property
    def _is_recorded(self) -> bool:
        return recording.can_record(self.agent, self.config) or self.has_recording

    @property
    def has_recording(self) -> bool:
        """Whether the run keeps steps of this agent."""
        return recording.is_of(self._directory.recorded, self._num_steps)

    def recording(self) -> Recording:
        """The reward-free steps that the run keeps; recorded now if those of this agent are missing."""
        path = self._directory.recorded
        return recording.kept(path, self.agent, self.config, self._num_steps)


def _trajectory(
    name: str, before: NDArray, reached: NDArray, actions: NDArray[np.int64]
) -> Demonstration:
    """The states of a trajectory, each with its action, and the last one, whose action is unknown."""
    states = np.concatenate([before, reached[-1:]])
    return Demonstration(name, states, np.concatenate([actions, [-1]]))


def _goal_name(state: NDArray, world: Any) -> str:
    if world is not None:
        return "goal {},{}".format(*divmod(int(state), world.width))
    shown = np.atleast_1d(state).ravel()
    return "goal " + (" ".join(f"{x:.3g}" for x in shown) if len(shown) <= 8 else "image")
