"""Presets: named configurations."""

from __future__ import annotations

from collections.abc import Iterable

from visr import config as configuration
from visr.config import ATARI, DATASET, GRID, MINATAR, MINIGRID, REPLAY_LEARNERS, RunConfig
from visr.config.check import NOT_OF_REPLAY
from visr.config.load import plain
from visr.errors import UserError, did_you_mean, short_repr

# The paper's grid world: d, steps and networks from the paper; discount, new starts and no target network
# from the authors' notebook; the rest are our choices (docs/deviations.md).
_GRID: dict[str, object] = {
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

# The learning rate and Adam's epsilon that the paper names.
_GRID_LITERAL: dict[str, object] = {
    **_GRID,
    "psi_learning_rate": 1e-4,
    "psi_adam_epsilon": 1e-3,
    "phi_learning_rate": 1e-4,
    "phi_adam_epsilon": 1e-3,
    "learning_rate_decay": "none",
}

# The authors' notebook. Its psi loss is the mean over the 5 cumulants of what we sum, so that Adam's
# epsilon of 1e-5 is 5e-5 here. One environment for each of its 32 trajectories, one update a round.
_NOTEBOOK: dict[str, object] = {
    **_GRID_LITERAL,
    "same_starts": True,
    "epsilon": 0.1,
    "gpi_distribution": "uniform",
    "phi_layers": 1,
    "psi_adam_epsilon": 5e-5,
    "phi_learning_rate": 1e-3,
    "phi_adam_epsilon": 1e-8,
    "num_envs": 32,
    "num_actor_groups": 1,
    "num_processes": 1,
}

# The same method with our own choices for all that the paper leaves open (docs/results/appendix_ablation.md).
_WIDE: dict[str, object] = {
    **_GRID,
    "num_features": 16,
    "hidden_sizes": (384, 384),
    "gamma": 0.9,
    "gpi": False,
    "gpi_kappa": 16.0,
    "phi_num_steps": 1_500_000,
    "num_steps": 24_000_000,
    "num_envs": 128,
    "num_actor_groups": 2,
    "batch_size": 16,
    "centred": True,
    "ridge": 0.3,
}

# grid-wide with additions (docs/agents/additions.md): psi also learns tasks that reward visited states, its
# error along w has more weight, and epsilon is larger, so that every state is visited under every task.
_PLUS: dict[str, object] = {
    **_WIDE,
    "num_features": 32,
    "hidden_sizes": (256, 256),
    "task_distribution": "visited",
    "task_mix": 0.9,
    "value_weight": 8.0,
    "epsilon": 0.2,
    "unroll_length": 20,
    "batch_size": 32,
    "num_steps": 7_000_000,
    "evaluate_every": 500_000,
}

# The paper's Atari: every default, on 100 environments of which 5 see rewards (its online evaluation).
# The paper gives no n; R2D2, whose optimiser it uses, has n = 5. Threads and micro-batches are for speed.
_ATARI: dict[str, object] = {
    "n_step": 5,
    "num_rewarded_envs": 5,
    "num_threads": 0,
    "micro_batch": 4,
    "log_every": 40_000,
    "checkpoint_every": 400_000,
}

_CENTRED: dict[str, object] = {"centred_features": True, "feature_centre": "latest"}

# For a CPU and an afternoon: the network of Mnih et al. (2013) without an LSTM, and four times as many
# updates per step, because the run has 2M steps instead of 250M (docs/results/appendix_atari.md).
_ATARI_SMALL: dict[str, object] = {
    **_ATARI,
    "torso": "nips",
    "core": "none",
    **_CENTRED,
    "num_steps": 2_000_000,
    "num_envs": 34,
    "num_rewarded_envs": 2,
    "batch_size": 8,
    "micro_batch": 0,
    "psi_learning_rate": 2.5e-4,
    "psi_adam_epsilon": 1e-5,
    "phi_learning_rate": 1e-4,
    "phi_adam_epsilon": 1e-5,
    "target_period": 250,
    "log_every": 10_000,
    "checkpoint_every": 100_000,
}

# Small environments: runs of 2M steps need a shorter target period and larger learning rates.
_SMALL: dict[str, object] = {
    "n_step": 5,
    "target_period": 100,
    "psi_learning_rate": 5e-4,
    "psi_adam_epsilon": 1e-5,
    "phi_learning_rate": 5e-4,
    "phi_adam_epsilon": 1e-5,
    "num_steps": 2_000_000,
    "num_envs": 64,
    "batch_size": 16,
    "log_every": 20_000,
    "checkpoint_every": 500_000,
}
_CLASSIC: dict[str, object] = {
    **_SMALL,
    "hidden_sizes": (128, 128),
    "torso": "small",  # these three are for images
    "core": "none",
    "head_size": 64,
    **_CENTRED,
}
_MINATAR: dict[str, object] = {
    **_SMALL,
    "core": "none",
    "head_size": 64,  # 256 would take 1.6 times as long
    **_CENTRED,
    "num_rewarded_envs": 4,
    "num_envs": 68,
}

MINATAR_PLUS: dict[str, object] = {
    "task_distribution": "visited",
    "value_weight": 4.0,
    "bonus": "rnd",
}
"""What `minatar-plus` adds to `minatar`."""

# The replay learner (docs/agents/replay.md); `num_updates` fit the time of one core that its page names.
_REPLAY: dict[str, object] = {
    "algorithm": "replay",
    "value_weight": 20.0,
    "psi_learning_rate": 1.5e-3,
    "psi_adam_epsilon": 1e-8,
    "log_every": 20_000,
}
_REPLAY_GRID: dict[str, object] = {
    **_REPLAY,
    "num_features": 128,
    "gamma": 0.95,
    "num_envs": 16,
    "unroll_length": 128,
    "num_steps": 220_000,  # the rest after the warm-up are few: random steps visit states evenly
    "warmup_steps": 200_000,
    "target_temperature": 0.1,
    "smooth_states": True,
    "whole_psi_tasks": 8,
    "library_steps": 60_000,
    "checkpoint_every": 100_000,
    "evaluate_every": 220_000,
}
_REPLAY_LARGE_GRID: dict[str, object] = {
    **_REPLAY_GRID,
    "num_steps": 420_000,
    "warmup_steps": 400_000,
    "num_updates": 6_000,
    "library_size": 448,  # every cell of a 21 x 21 grid
    "library_steps": 0,  # 257 numbers a last layer do not fit so many states and actions
    "transitions_per_update": 64,
    "tasks_per_update": 24,
    "goal_share": 0.65,
    "stretch_share": 0.3,
    "evaluate_every": 420_000,
}
_REPLAY_MINIGRID: dict[str, object] = {
    **_REPLAY_LARGE_GRID,
    "num_features": 320,
    "gamma": 0.97,
    "library_size": 128,
}
_REPLAY_VECTORS: dict[str, object] = {
    **_REPLAY,
    "num_features": 104,
    "epsilon": 0.0,
    "num_envs": 64,
    "unroll_length": 64,
    "num_steps": 340_000,
    "warmup_steps": 40_000,
    "num_stages": 3,
    "num_updates": 9_000,
    "transitions_per_update": 128,
    "tasks_per_update": 16,
    "goal_share": 0.45,
    "stretch_share": 0.25,
    "constant_share": 0.2,
    "target_rate": 0.05,
    "checkpoint_every": 100_000,
}
_REPLAY_PLANES: dict[str, object] = {
    **_REPLAY,
    "num_features": 96,
    "psi_learning_rate": 1e-3,
    "n_step": 3,
    "num_envs": 64,
    "unroll_length": 40,
    "num_steps": 1_000_000,
    "warmup_steps": 26_000,
    "num_stages": 2,
    "num_updates": 20_000,
    "transitions_per_update": 64,
    "tasks_per_update": 16,
    "goal_share": 0.7,
    "stretch_share": 0.22,
    "psi_width": 128,
    "target_rate": 0.01,
    "checkpoint_every": 250_000,
}

SIMPLE: dict[str, object] = {
    "algorithm": "simple",
    "num_steps": 100_000,
    "log_every": 1_000,
    "checkpoint_every": 1_000,
}
"""SimPLe, in the environment's own preset; a row and a checkpoint after each of its 15 iterations."""

_FORWARD_BACKWARD: dict[str, object] = {
    "algorithm": "fb",
    "transitions_per_update": 128,
    "tasks_per_update": 8,
    "library_steps": 0,
}
"""Its loss compares pairs of steps, so it needs more steps and fewer tasks in an update."""

PRESETS: dict[str, tuple[str, dict[str, object]]] = {
    "paper": ("the paper's numbers for Atari: every field's default", {}),
    "grid": ("the paper's grid world: d = 5, 38.4M steps, our learning rates", _GRID),
    "grid-literal": ("grid with the learning rate and epsilon that the paper names", _GRID_LITERAL),
    "notebook": ("the settings of the authors' grid-world notebook", _NOTEBOOK),
    "grid-wide": ("the grid world with more features and larger networks: d = 16", _WIDE),
    "grid-plus": ("grid-wide with extensions of the paper: tasks of visited states, d = 32", _PLUS),
    "demo": (
        "the replay learner on the grid world: a minute of one core, policies near the optimum",
        _REPLAY_GRID,
    ),
    "demo-visr": (
        "two minutes of grid-wide, with smaller networks",
        {**_WIDE, "hidden_sizes": (256, 256), "num_steps": 8_000_000, "evaluate_every": 500_000},
    ),
    "atari": ("the paper's agent on Atari: 100 environments, 250M steps; needs a GPU", _ATARI),
    "atari-small": ("Atari on a CPU in an afternoon: 2M steps, a small network", _ATARI_SMALL),
    "classic": ("small environments with vectors or states: 2M steps in minutes", _CLASSIC),
    "minatar": ("MinAtar's games: 2M steps", _MINATAR),
    "minatar-plus": (
        "minatar with extensions of the paper: exploration bonus, tasks of visited states",
        {**_MINATAR, **MINATAR_PLUS},
    ),
    "replay-grid": ("the replay learner on grid worlds and other small state sets", _REPLAY_GRID),
    "replay-large-grid": ("the replay learner on more states than features", _REPLAY_LARGE_GRID),
    "replay-minigrid": ("the replay learner on MiniGrid's numbered states", _REPLAY_MINIGRID),
    "replay-vectors": ("the replay learner on vectors, such as CartPole's", _REPLAY_VECTORS),
    "replay-minatar": ("the replay learner on MinAtar's games", _REPLAY_PLANES),
    "smoke": (
        "a test run of a few seconds",
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
    if not isinstance(name, str) or name not in PRESETS:
        hint = did_you_mean(str(name), PRESETS, f"there are {', '.join(PRESETS)}.")
        raise UserError(f"There is no preset {short_repr(name)}; {hint}")
    return configuration.replace(RunConfig(), **PRESETS[name][1])


def for_environment(env: str, algorithm: str | None = None, given: Iterable[str] = ()) -> RunConfig:
    """The default configuration of an algorithm in an environment.

    The default algorithm is the replay learner; on Atari, and where settings are `given` that only the
    paper's agent reads, it is that one.
    """
    if algorithm is None and not env.startswith(ATARI) and not set(given) & set(NOT_OF_REPLAY):
        algorithm = "replay"
    if algorithm in REPLAY_LEARNERS:
        are_states = env == GRID or env.startswith(f"{DATASET}states")
        are_planes = env.startswith((MINATAR, f"{DATASET}planes"))
        kind = "grid" if are_states else "minatar" if are_planes else "vectors"
        kind = "minigrid" if env.startswith(MINIGRID) else kind
        config = get(f"replay-{kind}")
        return configuration.replace(config, **_FORWARD_BACKWARD) if algorithm == "fb" else config
    if algorithm == "simple":
        return configuration.replace(for_environment(env, "visr"), **SIMPLE)
    if env.startswith(ATARI):
        return get("atari")
    if env.startswith(MINATAR):
        return get("minatar")
    return get("grid" if env == GRID else "classic")


def for_steps(base: RunConfig, num_steps: object) -> RunConfig:
    """`base` for so many steps: a replay learner keeps its updates and its warm-up in proportion."""
    steps = plain(num_steps, base.training.num_steps)
    is_known = type(steps) is int and 0 < steps < 2**62  # others are refused later
    if base.agent.algorithm not in REPLAY_LEARNERS or not is_known:
        return base
    share = steps / base.training.num_steps
    updates, warm_up = base.replay.num_updates * share, base.replay.warmup_steps * share
    return configuration.replace(
        base, num_updates=max(round(updates), 1), warmup_steps=round(warm_up)
    )


def for_dataset(env: str, algorithm: str | None = None) -> RunConfig:
    """The default configuration of a replay learner on recorded steps, all known from the start."""
    known = algorithm if algorithm in REPLAY_LEARNERS else "replay"
    return configuration.replace(for_environment(env, known), num_stages=1, warmup_steps=0)
