"""Diagnosis and refinement of a run's tasks in Python."""

from __future__ import annotations

import functools
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path

import torch

from visr import arguments, envs
from visr.agents.base import Agent, BehaviourModel
from visr.agents.refined import RefinedAgent, residual_of
from visr.errors import UserError, short_repr
from visr.finetuning import offline_steps, refine, reward_labels
from visr.finetuning.offline_steps import OfflineSteps
from visr.finetuning.refine import Limit
from visr.inference import dataset, recording
from visr.inference.asked_reward import asked_reward
from visr.inference.diagnosis import Diagnosis
from visr.inference.recording import Recording
from visr.inference.task_inference import TaskInference
from visr.networks.residual_values import ResidualValues
from visr.run_files import RunFiles
from visr.storage import schema
from visr.storage.records.task import Task
from visr.training import devices

_SECONDS = 5.0


class RefinableRun(RunFiles, ABC):
    """A run whose tasks can be refined from its recorded steps."""

    agent: Agent
    num_steps: int
    """Steps that trained the weights: of pre-training, or of fine-tuning in a fine-tuned run."""

    @functools.cached_property
    @abstractmethod
    def inference(self) -> TaskInference:
        """Prompts and the steps that they need."""

    @property
    @abstractmethod
    def visr(self) -> BehaviourModel:
        """The agent, if it infers tasks."""

    @abstractmethod
    def checked_task(self, task: Task | str | Path) -> Task:
        """A task of this run: given as such, or by its name or its file."""

    def recording(self) -> Recording:
        """The reward-free steps that the run keeps; recorded now if they are missing."""
        return self.inference.recording()

    def diagnose(self, task: Task | str | Path) -> Diagnosis | None:
        """What is known of a task before it is played; None unless the agent is a replay learner."""
        return self.inference.diagnose(self.checked_task(task))

    @arguments.checked
    def refine(
        self,
        task: Task | str | Path,
        *,
        seconds: float | None = None,
        num_updates: int | None = None,
        until_done: bool = False,
        data: str | Path | None = None,
        resume: bool = False,
        seed: int = 0,
        rewarded_steps: int | None = None,
    ) -> Task:
        """The task with a better policy, learnt from recorded steps without a step of the environment.

        It takes `seconds` (5 by default), `num_updates` (the same result every time), or goes on until it
        believes it is done. `data` is an .npz file or minari:ID instead of the run's own steps. `resume`
        continues from a refined task. For "env" tasks the rewarded steps of `infer` are played again.

        >>> task = run.refine(run.infer("x0 < -0.5"), seconds=5)
        """
        limit = limit_of(seconds, num_updates, until_done)
        found = self._refining(task, limit, data, resume, seed, rewarded_steps)
        *_, last = found
        return last

    @arguments.checked
    def refining(
        self,
        task: Task | str | Path,
        *,
        data: str | Path | None = None,
        resume: bool = False,
        seed: int = 0,
        rewarded_steps: int | None = None,
        limit: Limit | None = None,
    ) -> Iterator[Task]:
        """Yield the best task so far after every slice of updates, until it believes it is done.

        >>> for task in run.refining("bottom"): print(task.refinement.value)
        """
        if limit is not None and not isinstance(limit, Limit):
            raise UserError(f"limit = {short_repr(limit)} is not a Limit.")
        return self._refining(task, limit or Limit(), data, resume, seed, rewarded_steps)

    def _refining(
        self,
        task: Task | str | Path,
        limit: Limit,
        data: str | Path | None,
        resume: bool,
        seed: int,
        rewarded_steps: int | None,
    ) -> Iterator[Task]:
        started = time.perf_counter()
        if rewarded_steps is not None:
            _check_count(rewarded_steps, "rewarded_steps")
        chosen, agent = self.checked_task(task), self.visr
        start = self._residual(chosen) if resume else None
        learner = chosen.refinement.learner_state() if resume and chosen.refinement else None
        if resume and chosen.refinement is None:
            raise UserError(f"The task `{chosen.name}` was not refined yet; leave out resume.")
        with devices.threads(self.config.training):
            steps = (
                self.offline_steps
                if data is None
                else self._dataset(str(arguments.path(data, "data")))
            )
            asked = asked_reward(chosen, agent, self.inference.codec)
            labels = reward_labels.of_steps(
                steps, asked, agent, self.config, **_given(num_steps=rewarded_steps)
            )
            yield from refine.refining(
                *(agent, chosen, steps, labels),
                run_steps=self.num_steps,
                limit=limit,
                gpi=self.config.agent.gpi,
                seed=seed,
                start=start,
                learner=learner,
                started=started,
            )

    @property
    def has_recorded_steps(self) -> bool:
        """Whether there are steps to refine from; else some are recorded at first use."""
        if "offline_steps" in vars(self):
            return True
        is_kept = recording.is_of(self.directory.recorded, self.num_steps)
        return is_kept or bool(self.directory.replay_pieces())

    @functools.cached_property
    def offline_steps(self) -> OfflineSteps:
        """The recorded steps to refine from: the replay buffer of pre-training, or the recorded sample."""
        space = envs.spec(self.config).observation_space
        found = None
        if self.model is None:
            found = offline_steps.of_replay(self.directory, self.config, space)
        if found is not None:
            return found
        if not (self.has_recorded_steps or recording.can_record(self.visr, self.config)):
            raise UserError(
                f"{self.directory.path} keeps no steps to refine from, as its observations are large or "
                "recorded_steps is 0; give --data, or pre-train with --algorithm replay."
            )
        return offline_steps.of_recording(self.inference.recording(), space)

    def _dataset(self, path: str) -> OfflineSteps:
        space = envs.spec(self.config).observation_space
        return offline_steps.of_dataset(dataset.read(path, self.inference.codec), path, space)

    # ---- acting

    def agent_of(self, task: Task) -> Agent:
        """The agent that acts for a task: refined, if the task is."""
        if not isinstance(task, Task):
            raise UserError(
                f"task = {short_repr(task)} is not a task; run.skill or run.infer makes one."
            )
        residual = self._residual(task)
        if residual is None:
            return self.agent
        return RefinedAgent(self.visr, residual, torch.as_tensor(task.w, dtype=torch.float32))

    def _residual(self, task: Task) -> ResidualValues | None:
        """The network that a refined task adds to psi . w."""
        refinement = task.refinement
        if refinement is None or not refinement.is_refined:
            return None
        if refinement.run_steps != self.num_steps and not self.directory.is_finetuned:
            raise UserError(
                f"The task `{task.name}` was refined at step {refinement.run_steps:,} and this run is at "
                f"step {self.num_steps:,}; refine it again."
            )
        with schema.refusing(f"The task `{task.name}` does not fit this run", "refine it again"):
            return residual_of(self.agent.spec, refinement.weights).to(self.agent.device)


def limit_of(seconds: float | None, num_updates: int | None, until_done: bool) -> Limit:
    """The one limit that was given; 5 seconds by default."""
    given = [x for x in (seconds, num_updates, until_done or None) if x is not None]
    if len(given) > 1:
        raise UserError("Give one of seconds, num_updates and until_done.")
    if seconds is not None and not 0 < seconds < 1e7:
        raise UserError(f"seconds = {seconds:g} must lie between 0 and 10,000,000.")
    if num_updates is not None:
        _check_count(num_updates, "num_updates")
    return Limit(num_updates, seconds if given else _SECONDS)


def _check_count(value: int, name: str) -> None:
    if not 1 <= value < 2**31:
        raise UserError(f"{name} = {short_repr(value)} must lie between 1 and {2**31 - 1}.")


def _given(**fields: int | None) -> dict[str, int]:
    return {name: value for name, value in fields.items() if value is not None}
