"""Extend a run to more steps, and say what its schedules do then."""

from __future__ import annotations

import math

from visr import config as configuration
from visr import terminal
from visr.config import BASELINES, REPLAY_LEARNERS, AgentConfig, RunConfig, presets
from visr.errors import UserError
from visr.storage import new_files
from visr.storage.files import writing
from visr.storage.run_dir import RunDir

log = terminal.logger()


def extended(run: RunDir, config: RunConfig, num_steps: int) -> RunConfig:
    """The same configuration with more steps."""
    updates = presets.for_steps(config, num_steps).replay.num_updates
    if config.replay.dataset:
        updates = math.ceil(num_steps / config.replay.transitions_per_update)
    longer = configuration.replace(config, num_steps=num_steps, num_updates=updates)
    planned = config.training.num_steps
    if longer.training.num_steps < planned:
        raise UserError(
            f"num_steps = {num_steps:,} is fewer than the {planned:,} of {run.path}; name more to extend it, "
            "or leave it out."
        )
    if longer != config and config.agent.algorithm in BASELINES:
        raise UserError(
            f"{config.agent.algorithm} plans its training for {planned:,} steps and cannot be extended; "
            "start a new run."
        )
    return longer


def extend(run: RunDir, before: RunConfig, config: RunConfig, num_steps: int) -> None:
    """Make the longer configuration the run's own, and say what its schedules do.

    The recorded sample holds phi of the shorter training: it is removed now and recorded again at the end.
    """
    with writing(run.recorded):
        new_files.remove(run.recorded)
    run.write_config(config)
    old, new = before.training.num_steps, config.training.num_steps
    log.warning(
        "visr: The run is extended from %s to %s steps; %s.",
        f"{old:,}",
        f"{new:,}",
        "; ".join(_schedules(config.agent, old, new, num_steps)),
    )
    if tasks := len(run.task_files()):
        log.warning(
            "visr: Its %s saved tasks fit phi of before; infer them again at the end.", tasks
        )


def _schedules(agent: AgentConfig, old: int, new: int, now: int) -> list[str]:
    """What each schedule does in a run that is extended at step `now`."""
    if agent.algorithm in REPLAY_LEARNERS:
        return ["updates stay in proportion, and the learning rate falls until the new end"]
    if agent.learning_rate_decay == "linear":
        before, after = (max(0.0, 1 - now / total) for total in (old, new))
        words = [
            f"learning rates now reach 0 at step {new:,}, so they change at once from {before:.0%} to "
            f"{after:.0%} of their initial values"
        ]
    else:
        words = ["learning rates stay constant"]
    if agent.phi_num_steps:
        words.append(f"phi is frozen after step {agent.phi_num_steps:,}, as before")
    if agent.bonus != "none" and agent.bonus_num_steps:
        words.append(f"the bonus ends at step {agent.bonus_num_steps:,}, as before")
    return words
