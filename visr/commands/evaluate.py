"""visr evaluate: how good a task's policy is, exactly on the grid and by episodes elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from visr.commands import options, output
from visr.config import BASELINES
from visr.errors import UserError
from visr.run_files import find_task
from visr.storage import packed_models
from visr.storage.files import write_json
from visr.storage.records.task import Task
from visr.storage.records.two_phase import cut_in_words
from visr.storage.run_dir import RunDir, evaluation_of

if TYPE_CHECKING:
    from visr.api import Run
    from visr.storage.records.episodes import PolicyReturns
    from visr.storage.records.grid import Evaluation
    from visr.storage.records.two_phase import Condition

_FAMILIES = {
    "span": "random w (in the span of phi)",
    "boxes": "two 4x4 boxes",
    "goals": "single goal cells",
}
_PHASE_TWO = ("rewarded_steps", "rewarded_episodes", "clip_rewards")
_EPISODES = ("episodes", "seed", *_PHASE_TWO)
_TASKS = ("task", "gamma", "policy", *_PHASE_TWO)
_SCORES = ("policy", "mean score", "of human", "human level", "episodes")


@dataclass(frozen=True)
class Options:
    """Evaluate a task's policy: its exact value on the grid, scores of whole episodes elsewhere.

    On the grid the result is a fraction, (V - V_random) / (V_optimal - V_random). Elsewhere and without a
    task it is the paper's second phase: collect rewards, infer a task by regression and by search, and play
    each of them.
    """

    run: options.Run
    task: Annotated[str | None, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")] = None
    """Name of a task in the run, or a task.json; without one, three families of 50 tasks, or phase two."""
    gamma: float | None = None
    """Grid only: discount of the values; by default 0.95, as in the authors' notebook."""
    policy: Literal["run", "gpi", "own"] = "run"
    """GPI, the policy of w alone, or as the run was configured; the families show both."""
    episodes: int | None = None
    """Elsewhere: episodes of each task; by default 30, as in the paper."""
    rewarded_steps: int | None = None
    """Phase two: largest number of steps with rewards; by default 100,000, as in the paper."""
    rewarded_episodes: int | None = None
    """Phase two: largest number of episodes with rewards; by default 50, as in the paper."""
    seed: int | None = None
    """Elsewhere: random seed; by default 0, or 1 when TASK is given."""
    clip_rewards: bool | None = None
    """Phase two: fit rewards clipped to [-1, 1]; by default as the run was configured."""
    env: options.Env = None
    device: options.Device = "auto"
    json: options.Json = False


def run(args: list[str]) -> int:
    """Evaluate one task, families of tasks, or phase two."""
    chosen = options.parse(Options, args, "evaluate")
    if chosen.gamma is not None and not 0 <= chosen.gamma < 1:
        raise UserError(f"gamma = {chosen.gamma} must be at least 0 and less than 1.")
    options.check_range(chosen, ("episodes", "rewarded_steps", "rewarded_episodes"), 1)
    options.check_range(chosen, ("seed",), 0)
    if _is_baseline(chosen.run):
        _evaluate_baseline(chosen)
        return 0
    from visr import api

    loaded = api.load(chosen.run, device=chosen.device, env=chosen.env)
    if loaded.world is not None:
        options.refuse(chosen, _EPISODES, "does not apply: values on the grid are exact")
        (_evaluate_families if chosen.task is None else _evaluate_exactly)(loaded, chosen)
        return 0
    options.refuse(chosen, ("gamma",), f"does not apply: {loaded.config.env} has no exact values")
    if not loaded.adapts:
        algorithm = loaded.config.agent.algorithm
        options.refuse(chosen, _PHASE_TWO, f"does not apply: a {algorithm} agent infers no task")
    (_phase_two if chosen.task is None else _evaluate_episodes)(loaded, chosen)
    return 0


def next_command(loaded: Run, task: str) -> str:
    """The command that evaluates a task; a run of a dataset needs an environment for it."""
    given = loaded.config.env if loaded.config.has_environment else "ENVIRONMENT"
    env = "" if loaded.has_own_env else f" --env {given}"
    return f"Next: visr evaluate {loaded.address} {task}{env}"


def _is_baseline(run: str) -> bool:
    """Whether the run trained DQN, PPO, Rainbow or SimPLe; no packed model did."""
    return (
        not packed_models.is_packed(run) and RunDir.open(run).config().agent.algorithm in BASELINES
    )


def _gpi(chosen: Options) -> bool | None:
    return {"run": None, "gpi": True, "own": False}[chosen.policy]


# ------------------------------------------------------------------------- exact, on the grid


def _evaluate_exactly(loaded: Run, chosen: Options) -> None:
    path = find_task(loaded.directory, chosen.task or "")
    result = loaded.evaluate_exactly(
        Task.load(path), gpi=_gpi(chosen), **options.given(gamma=chosen.gamma)
    )
    write_json(evaluation_of(path), result.to_dict())
    title = f"task: {result.task} (exact, mean over start states)"
    output.show(result.to_dict(), chosen.json, title, exact_rows(result))


def exact_rows(result: Evaluation) -> list[tuple[str, str]]:
    """The exact value of a policy, beside the values to compare it with."""
    return [
        ("fraction of optimal", f"{result.fraction_of_optimal:.3f}"),
        ("value", f"{result.value:.3f}"),
        ("value of the random policy", f"{result.value_random:.3f}"),
        ("value of the best constant action", f"{result.value_constant:.3f}"),
        ("value of the optimal policy", f"{result.value_optimal:.3f}"),
        ("discount", f"{result.gamma:g}"),
        ("policy", "greedy, GPI" if result.gpi else "greedy, w alone"),
    ]


def _evaluate_families(loaded: Run, chosen: Options) -> None:
    from visr.envs.grid import dynamic_programming

    gamma = dynamic_programming.GAMMA if chosen.gamma is None else chosen.gamma
    scores = loaded.evaluate_families(gamma=gamma)

    def cell(name: str) -> str:
        return f"{scores[name]:.3f}" if name in scores else "-"

    output.show(
        {"gamma": gamma, "num_steps": loaded.num_steps, **scores},
        chosen.json,
        f"fraction of optimal, exact, discount {gamma:g}, {loaded.num_steps:,} steps",
        [
            (text, *(cell(f"{name}{kind}") for kind in ("", "_gpi", "_planned")))
            for name, text in _FAMILIES.items()
            if name in scores
        ],
        header=("50 tasks each", "w alone", "GPI", "planned on phi.w"),
    )


# ------------------------------------------------------------------------------- by episodes


def _evaluate_episodes(loaded: Run, chosen: Options) -> None:
    options.refuse(chosen, _PHASE_TWO, "belongs to phase two, which takes no task")
    path = find_task(loaded.directory, chosen.task or "")
    given = options.given(num_episodes=chosen.episodes, seed=chosen.seed)
    found = loaded.evaluate_episodes(Task.load(path), gpi=_gpi(chosen), **given)
    write_json(evaluation_of(path), found.to_dict())
    own = "environment's own return"
    if found.reward_kind == "env":
        header = ("policy", own, "steps", "episodes")
    else:
        header = ("policy", "asked return", own, "steps", "episodes")
    rows = [_returns_row(policy, len(header)) for policy in found.policies]
    remarks = [f"The asked return sums {found.reward}."]
    if found.human_normalised is not None:
        remarks.append(f"The environment's own return is {found.human_normalised:,.1f} % of human.")
    remarks += cut_remarks(found.policies)
    title = f"{loaded.config.env}, task {found.task}: mean returns of whole episodes"
    output.show(found.to_dict(), chosen.json, title, rows, header, remarks=remarks)


def cut_remarks(played: Sequence[PolicyReturns | Condition]) -> list[str]:
    """That episodes were cut, if any was."""
    num_cut, num_steps = sum(one.num_cut for one in played), [max(one.num_steps) for one in played]
    words = cut_in_words(num_cut, num_steps)
    return [words] if words else []


def _returns_row(policy: PolicyReturns, width: int) -> tuple[str, ...]:
    steps = sum(policy.num_steps) / len(policy.num_steps)
    cells = (policy.policy, str(policy.asked), str(policy.environment))
    if width == 4:  # the asked reward is the environment's own
        cells = cells[:2]
    return (*cells, f"{steps:,.0f}", f"{len(policy.num_steps)}")


def _phase_two(loaded: Run, chosen: Options) -> None:
    if chosen.policy != "run":
        raise UserError("--policy needs a TASK; phase two acts as the run was configured.")
    phase = loaded.phase_two(
        note=(lambda text: None) if chosen.json else output.say,
        **options.given(
            num_trials=chosen.episodes,
            num_steps=chosen.rewarded_steps,
            num_episodes=chosen.rewarded_episodes,
            seed=chosen.seed,
            clip_rewards=chosen.clip_rewards,
        ),
    )
    phase.save(loaded.directory)
    found, remark = phase.record, f"Saved in {loaded.directory.phase_two}."
    if total := found.num_rewarded_steps:
        remark = f"{found.num_seen:,} of {total:,} steps had a reward other than 0. {remark}"
    if loaded.model is None:
        remark += f" Next: visr report {loaded.path}"
    header, rows = _table(found.conditions)
    remarks = [*cut_remarks(found.conditions), remark]
    output.show(phase.to_dict(), chosen.json, _title(loaded), rows, header, remarks=remarks)


def _evaluate_baseline(chosen: Options) -> None:
    """Episodes of DQN, PPO, Rainbow or SimPLe."""
    options.refuse(chosen, _TASKS, "does not apply: a baseline was trained on one reward")
    from visr import pretraining

    given = options.given(num_trials=chosen.episodes, seed=chosen.seed)
    phase = pretraining.evaluate_baseline(RunDir.open(chosen.run), **given)
    env, num_steps = phase.record.env, phase.record.num_steps
    title = f"{env}, {num_steps:,} rewarded steps: raw scores of whole episodes"
    header, rows = _table(phase.record.conditions)
    remarks = cut_remarks(phase.record.conditions)
    output.show(phase.to_dict(), chosen.json, title, rows, header, remarks=remarks)


def _title(loaded: Run) -> str:
    is_rewarded = loaded.config.agent.algorithm == "nsq" or loaded.directory.is_finetuned
    kind = "rewarded" if is_rewarded else "reward-free"
    return f"{loaded.config.env}, {loaded.num_steps:,} {kind} steps: raw scores of whole episodes"


def _table(
    conditions: Sequence[Condition],
) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Header and rows; without the columns of human scores where none is known."""
    rows = [_row(condition) for condition in conditions]
    if any(condition.human_normalised is not None for condition in conditions):
        return _SCORES, rows
    return (*_SCORES[:2], _SCORES[4]), [(*row[:2], row[4]) for row in rows]


def _row(scores: Condition) -> tuple[str, ...]:
    """One policy's mean score with its standard error, and whether it reaches human level."""
    error, normalised = scores.standard_error, scores.human_normalised
    return (
        scores.name,
        f"{scores.mean:,.1f}" + (f" ± {error:,.1f}" if error is not None else ""),
        "-" if normalised is None else f"{normalised:,.1f} %",
        "100 %"
        if scores.at_100
        else "75 %"
        if scores.at_75
        else "-"
        if normalised is None
        else "no",
        f"{len(scores.scores)}",
    )
