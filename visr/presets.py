"""Named configurations."""

from __future__ import annotations

import difflib

from visr import config as configuration
from visr.config import RunConfig
from visr.errors import UserError

# What the paper says of its grid world (d, steps, networks), the authors' notebook for the rest
# (discount, both learning rates' ratio, no target network), and our choices where both are silent or
# where we depart from them: docs/deviations.md gives the reasons.
_GRID = {
    "max_episode_steps": 39,
    "gamma": 0.95,
    "target_period": 1,
    "psi_learning_rate": 1e-3,
    "psi_adam_epsilon": 1e-5,
    "phi_learning_rate": 1e-3,
    "phi_adam_epsilon": 1e-8,
    "learning_rate_decay": "linear",
    "num_steps": 38_400_000,
    "num_envs": 512,
    "num_actor_groups": 4,
    "num_processes": 2,
}

PRESETS: dict[str, tuple[str, dict[str, object]]] = {
    "paper": ("the paper's numbers for Atari: every field's default", {}),
    "grid": ("the paper's grid world: d = 5, 38.4M steps", _GRID),
    "smoke": (
        "seconds: does everything run?",
        {
            **_GRID,
            "num_steps": 20_480,
            "num_envs": 32,
            "num_actor_groups": 2,
            "num_processes": 1,
            "log_every": 2_560,
            "checkpoint_every": 5_120,
            "evaluate_every": 10_240,
        },
    ),
}


def get(name: str) -> RunConfig:
    """The configuration of that name."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(PRESETS)}."
        raise UserError(f"There is no preset {name!r}; {hint}")
    return configuration.replace(RunConfig(), **PRESETS[name][1])


def for_environment(env: str) -> RunConfig:
    """What suits an environment when nothing is said: the grid's preset there, the paper's elsewhere."""
    return get("grid" if env == "visr/Grid-v0" else "paper")
