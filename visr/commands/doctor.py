"""visr doctor: check whether an environment can be used."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import tyro

from visr import config as configuration
from visr.commands import options, output
from visr.config import ATARI, AtariConfig, GridConfig, GymConfig, MinAtarConfig, RunConfig, presets
from visr.config.replay import fewest_features
from visr.errors import UserError

if TYPE_CHECKING:
    from visr.envs.check import EnvCheck


_SECTIONS = ("grid", "atari", "minatar", "gym")
"""Settings of environments."""


@dataclass(frozen=True)
class Options:
    """Step an environment with random actions and say whether it can be used."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")]
    """Environment id; `visr list envs` names some."""
    steps: int = 5_000
    """Number of random steps."""
    seed: int = 0
    """Random seed."""
    json: options.Json = False
    grid: GridConfig = field(default_factory=GridConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)
    minatar: MinAtarConfig = field(default_factory=MinAtarConfig)
    gym: GymConfig = field(default_factory=GymConfig)


def run(args: list[str]) -> int:
    """Check the environment; exit 2 if it cannot be used."""
    chosen = options.parse(Options, args, "doctor")
    options.check_range(chosen, ("steps",), 1)
    options.check_range(chosen, ("seed",), 0)
    sections = {name: getattr(chosen, name) for name in _SECTIONS}
    config = configuration.validated(RunConfig(chosen.env, **sections))
    from visr.envs import check, modules

    modules.trust(config.env)
    found = check.check_env(config, chosen.steps, chosen.seed)
    remarks = list(found.remarks)
    if not found.problems:
        remarks.append(f"It fits. Next: {_pretrain(config, found)}")
    title = f"doctor: {found.env}"
    output.show(dataclasses.asdict(found), chosen.json, title, _rows(found), remarks=remarks)
    if found.problems:
        raise UserError(f"{chosen.env} does not fit: {' '.join(found.problems)}")
    return 0


def _pretrain(config: RunConfig, found: EnvCheck) -> str:
    """The command that trains here with the settings that were checked, and with enough features."""
    words = ["visr", "pretrain", config.env, *configuration.all_flags(config, RunConfig())]
    if not config.env.startswith(ATARI):  # a replay buffer of its screens takes gigabytes
        words += ["--algorithm", "replay"]
        default = presets.for_environment(config.env, "replay").agent.num_features
        if found.num_inputs and default < fewest_features(found.num_inputs):
            words += ["--num-features", str(found.num_inputs + default)]
    return shlex.join(words)


def _rows(found: EnvCheck) -> list[tuple[str, ...]]:
    lengths = "none ended"
    if found.mean_length is not None:
        lengths = f"{found.num_episodes:,}, {found.mean_length:,.0f} steps on average"
        lengths += f", {found.num_truncated:,} by time limit" if found.num_truncated else ""
    rewarded = "none"
    if found.num_rewarded:
        share = 100 * found.num_rewarded / found.num_steps
        rewarded = f"{share:.3g} % of steps, {found.smallest_reward:g} to {found.largest_reward:g}"
    return [
        ("observations", found.own_observations),
        ("input of the networks", found.seen_as),
        ("actions", found.own_actions),
        ("deterministic under a seed", "yes" if found.is_deterministic else "no"),
        ("rewards", rewarded),
        ("episodes", lengths),
        ("random steps", f"{found.num_steps:,}"),
        ("steps/s, one process", f"{found.steps_per_second:,.0f}"),
    ]
