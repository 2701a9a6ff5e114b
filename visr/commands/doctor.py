"""visr doctor: does an environment fit, and is this machine ready?"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from visr import config as configuration
from visr.commands import options, output
from visr.config import AtariConfig, GridConfig, GymConfig, MinAtarConfig, RunConfig
from visr.errors import UserError

if TYPE_CHECKING:
    from visr.envs.check import EnvCheck


@dataclass(frozen=True)
class Options:
    """Step an environment with random actions and say whether it fits."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Environment id; `visr list envs` names some."""
    steps: int = 5_000
    """Random steps in all."""
    seed: int = 0
    """Decides them."""
    json: bool = False
    """Print what was found as one JSON object."""
    grid: GridConfig = field(default_factory=GridConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)
    minatar: MinAtarConfig = field(default_factory=MinAtarConfig)
    gym: GymConfig = field(default_factory=GymConfig)


def run(args: list[str]) -> int:
    """Examine and report; exit 2 if it does not fit."""
    chosen = options.parse(Options, args, "doctor")
    if not 1 <= chosen.steps < 2**31:
        raise UserError(f"steps = {chosen.steps} must be at least 1 and at most {2**31 - 1}.")
    if not 0 <= chosen.seed < 2**31:
        raise UserError(f"seed = {chosen.seed} must lie between 0 and {2**31 - 1}.")
    config = configuration.validated(
        RunConfig(
            chosen.env,
            grid=chosen.grid,
            atari=chosen.atari,
            minatar=chosen.minatar,
            gym=chosen.gym,
        )
    )
    from visr import envs
    from visr.envs import check

    envs.trust(config.env)
    found = check.check_env(config, chosen.steps, chosen.seed)
    if chosen.json:
        output.emit(dataclasses.asdict(found))
    else:
        _show(found)
    if found.problems:
        raise UserError(f"{chosen.env} does not fit: {' '.join(found.problems)}")
    return 0


def _show(found: EnvCheck) -> None:
    lengths = "none ended"
    if found.mean_length is not None:
        lengths = f"{found.num_episodes:,}, {found.mean_length:,.0f} steps on average"
        lengths += f", {found.num_truncated:,} by time-out" if found.num_truncated else ""
    rewarded = "none"
    if found.num_rewarded:
        share = 100 * found.num_rewarded / found.num_steps
        rewarded = f"{share:.3g} % of steps, {found.smallest_reward:g} to {found.largest_reward:g}"
    rows = [
        ("observations", found.own_observations),
        ("as networks see them", found.seen_as),
        ("actions", found.own_actions),
        ("deterministic under a seed", "yes" if found.is_deterministic else "no"),
        ("rewards", rewarded),
        ("episodes", lengths),
        ("random steps", f"{found.num_steps:,}"),
        ("steps/s, one process", f"{found.steps_per_second:,.0f}"),
    ]
    output.table(f"doctor: {found.env}", rows)
    for remark in found.remarks:
        output.say(remark)
    if not found.problems:
        output.say(f"It fits. Next: visr pretrain {found.env}")
