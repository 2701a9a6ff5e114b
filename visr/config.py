"""Every choice a run can make, as frozen dataclasses; defaults are the paper's.

This file imports neither torch nor gymnasium, so that help texts, reports and validation stay instant.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import typing
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from visr.errors import UserError

GRID = "visr/Grid-v0"
"""The id of the grid world, the one environment with an exact model."""
ATARI = "ALE/"
"""How the ids of Atari games begin."""
MINATAR = "MinAtar/"
"""How the ids of MinAtar's games begin."""

Algorithm = Literal[
    "visr", "nsq", "pos-nsq", "diayn", "rf-curiosity", "idf-curiosity", "uniform", "dqn", "ppo"
]
"""The agents; `docs/agents.md` has their sources."""
BASELINES = ("dqn", "ppo")
"""Those of Stable-Baselines3, which have networks and optimisers of their own."""


@dataclass(frozen=True)
class GridConfig:
    """The world of `visr/Grid-v0`; other environments ignore it."""

    height: int = 10
    """Rows of the grid."""
    width: int = 10
    """Columns of the grid."""
    layout: Literal["open", "four-rooms"] = "open"
    """Walls: none, or the classic four rooms joined by four doors."""
    max_episode_steps: int = 0
    """Steps before a time-out sends the agent to a new start; 0 never does."""


@dataclass(frozen=True)
class AtariConfig:
    """The games `ALE/...-v5`, prepared as in Mnih et al. (2015); other environments ignore it."""

    frame_skip: int = 4
    """Emulator frames per step; the last two are joined by their maximum."""
    noop_max: int = 30
    """Episodes begin with up to so many no-ops."""
    max_episode_frames: int = 18_000
    """Emulator frames before a time-out: five minutes."""
    sticky_actions: float = 0.0
    """Probability that the emulator repeats the last action instead."""
    full_action_space: bool = False
    """All 18 actions instead of the game's own."""
    zero_discount_on_life_loss: bool = True
    """In training, nothing is worth anything beyond a lost life; the game itself goes on."""


@dataclass(frozen=True)
class MinAtarConfig:
    """The games `MinAtar/...-v1` of Young and Tian (2019); other environments ignore it."""

    repeat_probability: float = 0.1
    """Probability that a game repeats the last action instead."""
    difficulty_ramping: bool = True
    """Games get harder as they go on."""
    max_game_steps: int = 5_000
    """Steps before a time-out."""


@dataclass(frozen=True)
class GymConfig:
    """Any other Gymnasium environment."""

    vectorize: Literal["sync", "async"] = "sync"
    """Copies take turns in one process, or each has its own, which suits slow environments."""
    discretise: int = 0
    """Values offered in each dimension of a continuous action; 0 for actions that are discrete already."""


@dataclass(frozen=True)
class AgentConfig:
    """What is learnt, and how the agent acts; fields of other algorithms than the chosen one are ignored."""

    algorithm: Algorithm = "visr"
    """What psi sums: VISR's phi, or for a baseline the reward, a constant, a skill's log q, an error."""
    num_features: int = 5
    """d: the length of phi, psi's cumulants and w."""
    features: Literal["learned", "random"] = "learned"
    """phi learns to infer w, or stays as initialised (the paper's RF VISR)."""
    cumulant: Literal["next", "current"] = "next"
    """psi sums phi(s') as in Eq. 3 and the authors' code, or phi(s) as Algorithm 1 is printed."""
    objective: Literal["visr", "metra", "inverse", "laplacian"] = "visr"
    """What phi learns: to infer w, temporal distance, which action was taken, slow features."""
    bonus: Literal["none", "rnd", "particles", "forward"] = "none"
    """Curiosity b, summed by psi as phi + b w: distillation, nearest neighbours in phi, forward model."""
    bonus_scale: float = 0.1
    """The bonus's mean per step; phi . w lies between -1 and 1."""
    bonus_num_steps: int = 0
    """Steps over which the bonus falls linearly to zero; 0: it stays."""
    bonus_neighbours: int = 5
    """With `particles`: how many nearest neighbours are asked."""
    task_distribution: Literal["uniform", "visited"] = "uniform"
    """psi learns the tasks pursued, or partly tasks that reward states just visited (see `task_mix`)."""
    task_mix: float = 0.5
    """With `visited`: the share of unrolls that psi learns under such a task."""
    value_weight: float = 0.0
    """Extra weight of psi's error along w, the one of d directions that w's own policy reads."""
    torso: Literal["auto", "mlp", "minatar", "nips", "nature", "impala"] = "auto"
    """What reads observations; `auto` is IMPALA's residual network for images, an MLP for the rest."""
    core: Literal["auto", "lstm", "none"] = "auto"
    """psi's memory: `auto` is an LSTM of 256 behind an image torso, none behind an MLP. phi never has one."""
    hidden_sizes: tuple[int, ...] = (100, 100)
    """Hidden layers of phi and of psi where the torso is an MLP."""
    head_size: int = 256
    """Units of psi's MLP per cumulant, behind an image torso or an LSTM."""
    normalise_observations: bool = True
    """Bring vectors of observations to mean 0 and deviation 1, by running statistics."""
    centred_features: bool = False
    """Take the mean over states out of phi's image torso, so that like screens do not get like features."""
    gpi: bool = True
    """Act by generalised policy improvement over w and sampled neighbours; else by w's own policy."""
    gpi_samples: int = 10
    """How many neighbours of w are drawn at every step."""
    gpi_distribution: Literal["vmf", "uniform"] = "vmf"
    """Neighbours: von Mises-Fisher around w (paper) or uniform (authors' notebook)."""
    gpi_kappa: float = 5.0
    """Concentration of the von Mises-Fisher neighbours."""
    epsilon: float = 0.05
    """Probability of a uniformly random action."""
    gamma: float = 0.99
    """Discount of the successor features."""
    n_step: int = 1
    """Length of the n-step return; at an unroll's end it bootstraps earlier."""
    target_period: int = 10_000
    """Updates between copies of psi into its target network; 1 means no target network."""
    psi_learning_rate: float = 1e-4
    """Adam's step size for psi."""
    psi_adam_epsilon: float = 1e-3
    """Adam's epsilon for psi."""
    phi_learning_rate: float = 1e-4
    """Adam's step size for phi."""
    phi_adam_epsilon: float = 1e-3
    """Adam's epsilon for phi."""
    phi_num_steps: int = 0
    """Steps after which phi rests, its step size falling linearly until then; 0: it learns to the end."""
    learning_rate_decay: Literal["none", "linear"] = "none"
    """Step sizes stay constant, or fall linearly to zero over `num_steps`."""
    constant_reward: float = 0.01
    """Pos-Reward NSQ: what every step is worth; over an endless life these sum to 1."""
    num_skills: int = 5
    """DIAYN: how many skills are learnt."""
    diayn_subtract_prior: bool = True
    """DIAYN: reward log q(z | s') - log p(z), as published; else log q(z | s') as VISR's paper derives it."""
    curiosity_size: int = 512
    """Curiosity: units of its features and of the layers of its models."""

    @property
    def task_size(self) -> int:
        """Length of what psi is told to pursue: w, a one-hot skill, or a 1."""
        return {"visr": self.num_features, "diayn": self.num_skills}.get(self.algorithm, 1)

    @property
    def num_cumulants(self) -> int:
        """How many sums psi predicts."""
        return self.num_features if self.algorithm == "visr" else 1

    @property
    def exploration(self) -> float:
        """Probability of a random action while acting."""
        return 1.0 if self.algorithm == "uniform" else self.epsilon


@dataclass(frozen=True)
class TrainingConfig:
    """How much, how often, how parallel."""

    num_steps: int = 250_000_000
    """Agent decisions in all, summed over environments; rounded up to whole rounds of unrolls."""
    num_envs: int = 100
    """Environments that act side by side."""
    unroll_length: int = 40
    """Steps per unroll; a new w is drawn for each."""
    batch_size: int = 32
    """Unrolls per update."""
    seed: int = 0
    """Fixes every random draw of the run."""
    num_processes: int = 1
    """Processes: one learns and acts for a group, the others act; results do not depend on it."""
    num_actor_groups: int = 1
    """Groups that the environments act in: one beside the learner, the others elsewhere; Ray's actors."""
    device: str = "auto"
    """Where the networks live: cpu, cuda, cuda:1, ...; `auto` is a GPU where there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Of the image torsos' products; `auto` is bfloat16 where the hardware has it."""
    channels_last: bool = True
    """Keep images as rows of pixels rather than planes of channels: the same numbers, sooner."""
    micro_batch: int = 0
    """Unrolls that pass through the networks at a time; gradients are summed. 0 is the whole batch."""
    num_threads: int = 1
    """Threads inside one operation: 1 suits small networks; 0 takes all cores, as image torsos like it."""
    num_rewarded_envs: int = 0
    """How many of them see rewards, act with the w of a running regression and feed no learner."""
    rewarded_window: int = 100_000
    """Steps of the rewarded environments that the running regression remembers."""
    log_every: int = 100_000
    """Steps between rows of metrics."""
    checkpoint_every: int = 2_000_000
    """Steps between checkpoints; the last two are kept."""
    evaluate_every: int = 2_000_000
    """Steps between exact evaluations, where the environment permits them (grid worlds)."""


@dataclass(frozen=True)
class InferenceConfig:
    """How a reward becomes a task."""

    centred: bool = False
    """Take the means out of phi and r first, so that a constant offset of the reward is no part of w."""
    ridge: float = 0.0
    """Ridge penalty, relative to the mean of phi's second moments; 0 is plain least squares, the paper's."""
    whitened: bool = False
    """Make the features uncorrelated and alike in size first, and take the coefficients there as w."""
    clip_rewards: bool = True
    """Fit an environment's rewards clipped to [-1, 1], as the paper did; scores are never clipped."""
    recorded_steps: int = 100_000
    """Reward-free steps that a finished run keeps, where observations are small; 0 keeps none."""


@dataclass(frozen=True)
class ClusterConfig:
    """How `--cluster` shares out the work; every group of environments is an actor, a process of its own."""

    max_staleness: int = 0
    """Updates by which weights may be outdated when their unroll is learnt from; 0 goes in rounds."""
    publish_every: int = 1
    """Updates between publications of the weights; rounds publish when they end."""
    unroll_timeout: float = 300.0
    """Seconds after which an actor that has not finished its unroll is replaced."""
    cpus_per_actor: float = 1.0
    """CPUs that an actor asks for."""
    gpus_per_actor: float = 0.0
    """GPUs that an actor asks for; a share lets several use one."""
    num_learners: int = 1
    """Learners that share every batch and add up their gradients."""
    cpus_per_learner: float = 1.0
    """CPUs that a learner asks for; with `num_threads` = 0 also its threads."""
    gpus_per_learner: float = 0.0
    """GPUs that a learner asks for."""


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run."""

    env: str = GRID
    """Environment id."""
    grid: GridConfig = field(default_factory=GridConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)
    minatar: MinAtarConfig = field(default_factory=MinAtarConfig)
    gym: GymConfig = field(default_factory=GymConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)


@dataclass(frozen=True)
class FinetuneConfig:
    """`visr finetune`: RL on the true reward, from a pre-trained psi or from scratch."""

    num_steps: int = 100_000
    """Rewarded steps in all."""
    from_scratch: bool = False
    """Begin with fresh weights instead of the run's: the same learner without pre-training."""
    num_envs: int = 8
    """Environments that act side by side."""
    unroll_length: int = 20
    """Steps per unroll."""
    batch_size: int = 8
    """Unrolls per update, drawn from all that are remembered."""
    updates_per_round: int = 16
    """Updates after every unroll of all environments."""
    replay_steps: int = 100_000
    """Steps that are remembered."""
    n_step: int = 3
    """Length of the n-step return."""
    learning_rate: float = 2.5e-4
    """Adam's step size."""
    target_period: int = 200
    """Updates between copies into the target network."""
    epsilon: float = 0.05
    """Probability of a random action."""
    gpi_steps: int = 10_000
    """Steps at first that act by GPI over w and the run's saved tasks, with psi as pre-trained."""
    exploration_steps: int = 10_000
    """From scratch: steps over which epsilon falls from 1."""
    checkpoint_every: int = 20_000
    """Steps between checkpoints; the last two are kept."""
    seed: int = 0
    """Decides all random draws."""


SECTIONS = ("grid", "atari", "minatar", "gym", "agent", "training", "inference", "cluster")

RESOURCES = ("cpus_per_actor", "gpus_per_actor", "cpus_per_learner", "gpus_per_learner")
"""Fields that only say how much of a cluster its processes ask for."""

_AT_LEAST: dict[str, float] = {
    "height": 1,
    "width": 1,
    "max_episode_steps": 0,
    "frame_skip": 1,
    "noop_max": 0,
    "max_episode_frames": 1,
    "max_game_steps": 1,
    "discretise": 0,
    "num_features": 2,
    "head_size": 1,
    "gpi_samples": 1,
    "gpi_kappa": 0,
    "n_step": 1,
    "target_period": 1,
    "phi_num_steps": 0,
    "num_skills": 2,
    "curiosity_size": 1,
    "bonus_scale": 0,
    "value_weight": 0,
    "bonus_num_steps": 0,
    "bonus_neighbours": 1,
    "num_steps": 1,
    "num_envs": 1,
    "unroll_length": 1,
    "batch_size": 1,
    "seed": 0,
    "num_processes": 1,
    "num_actor_groups": 1,
    "micro_batch": 0,
    "num_threads": 0,
    "num_rewarded_envs": 0,
    "rewarded_window": 1,
    "log_every": 1,
    "checkpoint_every": 1,
    "evaluate_every": 1,
    "ridge": 0,
    "recorded_steps": 0,
    "updates_per_round": 1,
    "replay_steps": 1,
    "gpi_steps": 0,
    "exploration_steps": 0,
    "max_staleness": 0,
    "publish_every": 1,
    "cpus_per_actor": 0,
    "gpus_per_actor": 0,
    "num_learners": 1,
    "cpus_per_learner": 0,
    "gpus_per_learner": 0,
}
_POSITIVE = (
    "constant_reward",
    "psi_learning_rate",
    "psi_adam_epsilon",
    "phi_learning_rate",
    "phi_adam_epsilon",
    "learning_rate",
    "unroll_timeout",
)
_FRACTIONS = ("epsilon", "gamma", "task_mix", "sticky_actions", "repeat_probability")
_ENV = re.compile(r"([A-Za-z_]\w*(\.[A-Za-z_]\w*)*:)?[^:\s]+", re.ASCII)
_LARGEST = 2**63 - 1
"""Of any whole number: what 64 bits hold."""
_SIZES = (
    *("height", "width", "num_features", "head_size", "gpi_samples", "num_envs", "batch_size"),
    *("unroll_length", "bonus_neighbours"),
    *("num_processes", "num_actor_groups", "frame_skip", "noop_max", "micro_batch", "num_threads"),
    *("num_rewarded_envs", "rewarded_window", "num_skills", "curiosity_size"),
    *("max_staleness", "publish_every", "num_learners", "cpus_per_actor", "gpus_per_actor"),
    *("cpus_per_learner", "gpus_per_learner"),
)
_LARGEST_SIZE = 10**6
"""Of what is held in memory, and of a hidden layer: a slip of the finger, not a wish."""


def field_names() -> dict[str, str]:
    """Every settable field and the section it lives in; names are unique across sections."""
    names = {"env": ""}
    for section in SECTIONS:
        names.update({f.name: section for f in dataclasses.fields(_section_class(section))})
    return names


def replace(config: RunConfig, **fields: Any) -> RunConfig:
    """A copy of `config` with the named fields changed, wherever they live; then validated."""
    known = field_names()
    changes: dict[str, dict[str, Any]] = {}
    for name, value in fields.items():
        if name not in known:
            raise UserError(_unknown_field(name, known))
        changes.setdefault(known[name], {})[name] = tuple(value) if type(value) is list else value
    top: dict[str, Any] = changes.pop("", {})
    for section, values in changes.items():
        top[section] = dataclasses.replace(getattr(config, section), **values)
    return validated(dataclasses.replace(config, **top))


def validated(config: RunConfig) -> RunConfig:
    """`config` itself, or a UserError that names the first field that cannot be."""
    _check_env(config.env)
    for section in SECTIONS:
        part = getattr(config, section)
        hints = _type_hints(type(part))
        for f in dataclasses.fields(part):
            _check(f.name, getattr(part, f.name), hints[f.name])
    training = config.training
    if training.num_processes > training.num_actor_groups:
        raise UserError(
            f"num_processes = {training.num_processes} is more than num_actor_groups = "
            f"{training.num_actor_groups}; every process acts for a group, so raise --num-actor-groups too."
        )
    if config.agent.centred_features and training.micro_batch:
        raise UserError(
            f"micro_batch = {training.micro_batch} does not go with centred_features, which needs the mean "
            "of the whole batch; use --micro-batch 0."
        )
    _check_objective(config.agent)
    if training.num_rewarded_envs >= training.num_envs:
        raise UserError(
            f"num_rewarded_envs = {training.num_rewarded_envs} leaves none of num_envs = "
            f"{training.num_envs} to pre-train in; give fewer of them."
        )
    if training.num_actor_groups > (left := training.num_envs - training.num_rewarded_envs):
        raise UserError(
            f"num_actor_groups = {training.num_actor_groups} is more than num_envs = "
            f"{left}; every group needs an environment, so give at most that many groups."
        )
    _check_cluster(config.cluster, training)
    return config


def finetune_settings(fields: dict[str, Any]) -> FinetuneConfig:
    """Settings of fine-tuning with these fields changed, or a UserError that names the first misfit."""
    names = {f.name for f in dataclasses.fields(FinetuneConfig)}
    for name in fields:
        if name not in names:
            raise UserError(_unknown_field(name, names, "finetune"))
    settings, hints = FinetuneConfig(**fields), _type_hints(FinetuneConfig)
    for name in names:
        _check(name, getattr(settings, name), hints[name])
    return settings


def _check_objective(agent: AgentConfig) -> None:
    if agent.objective != "visr" and agent.features == "random":
        raise UserError(
            f"objective = {agent.objective!r} trains phi and features = 'random' forbids it; leave out one."
        )
    if agent.objective == "metra" and agent.cumulant == "current":
        raise UserError(
            "cumulant = 'current' does not go with objective = 'metra', whose cumulant is the difference "
            "of two states; leave it out."
        )


def _check_cluster(cluster: ClusterConfig, training: TrainingConfig) -> None:
    """What must fit together for learners to share batches and for actors never to wait for each other."""
    size, stale, every = training.batch_size, cluster.max_staleness, cluster.publish_every
    if size % cluster.num_learners:
        raise UserError(
            f"num_learners = {cluster.num_learners} cannot share batch_size = {size} evenly; "
            "give a divisor of it."
        )
    if every > max(stale, 1):
        raise UserError(
            f"publish_every = {every} makes weights older than max_staleness = {stale} permits; "
            f"give --max-staleness {every} or more."
        )
    most = (stale - every + 1) * size
    if stale and (largest := largest_group(training)) > most:
        raise UserError(
            f"max_staleness = {stale} is too small for {largest} environments per actor, of which at most "
            f"{most} could act at a time; raise it, or --num-actor-groups."
        )


def largest_group(training: TrainingConfig) -> int:
    """Environments of the largest group."""
    return math.ceil((training.num_envs - training.num_rewarded_envs) / training.num_actor_groups)


def trainable(config: RunConfig) -> RunConfig:
    """`config`, validated, if there is anything to learn in its world."""
    if config.env == GRID and config.grid.height == config.grid.width == 1:
        raise UserError(
            "A grid of 1 x 1 cells is too small: nothing differs in one cell, so give it a larger "
            "height or width."
        )
    if config.env == GRID and config.agent.algorithm in ("nsq", *BASELINES):
        raise UserError(
            f"{GRID} has no rewards of its own, so {config.agent.algorithm} would learn nothing there; "
            "choose another environment."
        )
    return validated(config)


def to_dict(config: RunConfig) -> dict[str, Any]:
    """Plain nested dictionaries, ready for JSON."""
    return dataclasses.asdict(config)


def from_dict(data: Any) -> RunConfig:
    """The inverse of `to_dict`, trusting nothing: unknown or misfit fields are a UserError.

    A field that is missing was not there yet when the run was made; its default is what was done then.
    """
    if not isinstance(data, dict) or not isinstance(data.get("env"), str):
        raise UserError("The configuration is not an object with an `env`; the run is damaged.")
    if unknown := sorted(set(data) - {"env", *SECTIONS}):
        raise UserError(
            f"The configuration has sections that this version of visr does not know "
            f"({', '.join(unknown)}); use the version that wrote it, or train anew."
        )
    sections: dict[str, Any] = {}
    for section in SECTIONS:
        values, kind = data.get(section, {}), _section_class(section)
        names = {f.name for f in dataclasses.fields(kind)}
        if not isinstance(values, dict) or set(values) - names:
            odd = sorted(set(values) - names) if isinstance(values, dict) else [section]
            raise UserError(
                f"The configuration's section `{section}` does not fit this version of visr "
                f"(see {', '.join(odd)}); use the version that wrote it, or train anew."
            )
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        sections[section] = kind(**values)
    return validated(RunConfig(env=data["env"], **sections))


def _section_class(section: str) -> type:
    return {
        "grid": GridConfig,
        "atari": AtariConfig,
        "minatar": MinAtarConfig,
        "gym": GymConfig,
        "agent": AgentConfig,
        "training": TrainingConfig,
        "inference": InferenceConfig,
        "cluster": ClusterConfig,
    }[section]


@functools.cache
def _type_hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _check_env(env: Any) -> None:
    """An id, perhaps behind the module that registers it; nothing is imported here."""
    if not isinstance(env, str) or not _ENV.fullmatch(env):
        raise UserError(
            f"env = {env!r} must be an environment's id, or module:id for one of your own; "
            "`visr list envs` names some."
        )


def _check(name: str, value: Any, hint: Any) -> None:
    """Type first, then range: one sentence each."""
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            listed = ", ".join(map(str, choices))
            raise UserError(f"{name} = {value!r} is not a choice; it can be one of {listed}.")
    elif typing.get_origin(hint) is tuple:
        is_sizes = isinstance(value, tuple) and len(value) > 0
        if not is_sizes or not all(type(v) is int and 1 <= v <= _LARGEST_SIZE for v in value):
            raise UserError(
                f"{name} = {value!r} must be one or more whole numbers from 1 to {_LARGEST_SIZE:,}."
            )
    elif hint is str:
        if not isinstance(value, str):
            raise UserError(f"{name} = {value!r} must be a word.")
    elif hint is bool:
        if type(value) is not bool:
            raise UserError(f"{name} = {value!r} must be true or false.")
    else:
        _check_number(name, value, hint)


def _check_number(name: str, value: Any, hint: type) -> None:
    is_number = type(value) is int or (hint is float and isinstance(value, float))
    if not is_number or not abs(value) < math.inf:
        kind = "a whole number" if hint is int else "a finite number"
        raise UserError(f"{name} = {value!r} must be {kind}.")
    largest = _LARGEST_SIZE if name in _SIZES else _LARGEST
    if value > largest:
        raise UserError(f"{name} = {value} is too large; it must be at most {largest:,}.")
    if name in _AT_LEAST and value < _AT_LEAST[name]:
        raise UserError(f"{name} = {value} is too small; it must be at least {_AT_LEAST[name]:g}.")
    if name in _POSITIVE and value <= 0:
        raise UserError(f"{name} = {value} must be greater than 0.")
    if name in _FRACTIONS and not 0 <= value <= 1:
        raise UserError(f"{name} = {value} must lie between 0 and 1.")
    if name == "gamma" and value == 1:
        raise UserError("gamma = 1 makes the sum of features endless here; use 0.99 or less.")


def _unknown_field(name: str, known: Iterable[str], verb: str = "pretrain") -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"`visr {verb} --help` lists the fields."
    return f"There is no field `{name}`; {hint}"
