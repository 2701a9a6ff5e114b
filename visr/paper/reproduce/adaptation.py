"""Other ways than the paper's to spend the rewarded steps, each on as many of them (docs/beyond.md)."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from visr import api, envs
from visr.agents.visr import Visr
from visr.api import Run
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError
from visr.evaluation import rewarded_phase
from visr.evaluation.two_phase import Scores
from visr.finetuning import run as finetuning
from visr.finetuning.q_learner import FineTuner
from visr.inference import compare, dataset
from visr.paper.reproduce.agents import INFERRING, RELABELLING, ROUNDS, UPDATES_PER_FREE_STEP, Way
from visr.paper.reproduce.plan import Counts
from visr.storage import schema
from visr.storage.files import write_json
from visr.storage.records.finetuning import FinetuneResult
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Adapted, AdaptedCondition
from visr.storage.run_dir import RunDir, slug
from visr.training.actor_pool import spec_of

_A_ROUND = FinetuneConfig.num_envs * FinetuneConfig.unroll_length
"""Steps of fine-tuning between updates."""


@dataclass(frozen=True)
class _Plan:
    """What a way does with its steps."""

    rounds: int = 1
    inferring: float = 1.0
    """The share of the steps that infers; the rest fine-tunes."""
    tuning: dict[str, Any] = field(default_factory=dict)
    """Settings of the fine-tuning that differ from the defaults."""
    relabels: bool = False
    """Whether it learns from reward-free steps as well."""

    def settings(self, counts: Counts) -> dict[str, Any]:
        """Those, and what follows from the plan's counts: a sweep as long as others infer."""
        if not self.relabels:
            return self.tuning
        return {
            **self.tuning,
            "free_steps": counts.free_steps,
            "free_updates": round(counts.free_steps * UPDATES_PER_FREE_STEP),
            "sweep_steps": int(INFERRING * counts.rewarded_steps),
        }


_PLANS: dict[Way, _Plan] = {
    "rounds": _Plan(ROUNDS),
    "fine-tuned": _Plan(inferring=INFERRING),
    "from scratch": _Plan(inferring=0.0, tuning={"from_scratch": True}),
    "relabelled": _Plan(inferring=0.0, tuning=RELABELLING, relabels=True),
}


def adapt(directory: RunDir, ways: Sequence[Way], counts: Counts) -> None:
    """Adapt in each way, judge each as the paper's are judged, write adapted.json; a stopped one goes on."""
    run = api.load(directory.path)
    conditions = tuple(_adapted(run, way, counts) for way in ways)
    record = Adapted(env=run.config.env, num_steps=run.num_steps, conditions=conditions)
    write_json(directory.adapted, schema.to_dict(record))


def probe(config: RunConfig, ways: Sequence[Way], counts: Counts, seconds: float) -> float:
    """Rewarded steps per second, on average over the ways: inference acts, fine-tuning acts and learns.

    Free steps are acted, too, and cost what acting costs.
    """
    spec = spec_of(envs.make_vec(config, 1))
    w = np.eye(config.agent.num_features)[:1]
    tuner = FineTuner(Visr(config.agent, spec), config, FinetuneConfig(), w[0], w, None)
    acting: list[float] = []
    learning: list[float] = []
    while sum(learning) < seconds:
        start, num_updates = time.perf_counter(), tuner.num_updates
        tuner.round()
        (learning if tuner.num_updates > num_updates else acting).append(
            time.perf_counter() - start
        )
    to_infer, to_tune = (float(np.mean(of)) / _A_ROUND for of in (acting, learning))
    to_tune /= _work(FinetuneConfig(), counts)
    costs = []
    for plan in (_PLANS[way] for way in ways):
        settings = FinetuneConfig(**plan.settings(counts))
        acted = plan.inferring + settings.free_steps / counts.rewarded_steps
        learnt = (1 - plan.inferring) * _work(settings, counts)
        costs.append(acted * to_infer + learnt * to_tune)
    return len(costs) / sum(costs)


def _work(settings: FinetuneConfig, counts: Counts) -> float:
    """Unrolls that a fine-tuning learns from per rewarded step."""
    first = settings.free_updates / counts.rewarded_steps if settings.free_steps else 0.0
    return (settings.updates_per_round / _A_ROUND + first) * settings.batch_size


def _adapted(run: Run, way: Way, counts: Counts) -> AdaptedCondition:
    chosen, seed = _PLANS[way], run.config.training.seed
    share, num_free = int(chosen.inferring * counts.rewarded_steps), 0
    task, spent = infer(run, share, max(share, counts.rewarded_steps - share), chosen.rounds)
    if chosen.inferring < 1:
        left = counts.rewarded_steps - spent
        tuned = _tuned(run, task, way, left, chosen.settings(counts))
        spent += tuned.num_steps
        num_free = FinetuneResult.load(tuned.directory).num_free_steps
        scores = tuned.try_task(task, num_episodes=counts.trials, gpi=False, seed=seed + 1)
    else:
        scores = run.try_task(task, num_episodes=counts.trials, seed=seed + 1)
    named: Scores = dataclasses.replace(scores, name=way)
    return AdaptedCondition(
        **vars(rewarded_phase.condition(named, task)),
        num_rewarded_steps=spent,
        num_free_steps=num_free,
    )


def infer(run: Run, share: int, most: int, rounds: int) -> tuple[Task, int]:
    """The task that `best` finds, and the steps it took: a share of them, or more until a reward is met.

    Where `most` steps meet none, any task will do.
    """
    seed, spent = run.config.training.seed, 0
    while 0 < share <= most - spent:
        seen = run.meet_rewards(
            num_episodes=share, num_steps=share, rounds=rounds, seed=seed + spent
        )
        spent += len(seen.reward)
        if seen.reward.any():
            met = dataset.from_environment(seen, run.config.inference.clip_rewards)
            return run.task_of(compare.compare(met), "best", dataset.ENV_REWARD), spent
    return run.skill(seed), spent


def _tuned(run: Run, task: Task, way: Way, num_steps: int, tuning: dict[str, Any]) -> Run:
    """Fine-tuned, in a run of its own within the run, for as many whole rounds as the steps hold."""
    place = RunDir(run.directory.finetuned_run(slug(way)))
    settings = FinetuneConfig(
        num_steps=max(num_steps // _A_ROUND, 1) * _A_ROUND,
        seed=run.config.training.seed,
        **tuning,
    )
    try:
        return _finetuned(run, task, place, settings)
    except UserError as error:
        if isinstance(error.__cause__, OSError) or place.is_in_use or not place.path.exists():
            raise  # a full disk, another process, the steps themselves: removing it would not help
        words = str(error).rstrip(".")
        raise UserError(f"{words}; or remove {place.path}, and it is made anew.") from None


def _finetuned(run: Run, task: Task, place: RunDir, settings: FinetuneConfig) -> Run:
    if place.checkpoints():
        finetuning.refuse_other(place.path, task, settings)
        return api.load(finetuning.resume(place.path).path)
    shutil.rmtree(place.path, ignore_errors=True)  # killed before it had anything to go on from
    # What the paper's phase saved was paid for with rewarded steps of its own: nothing of it is consulted.
    return run.finetune(task, out=place.path, consult=(), **dataclasses.asdict(settings))
