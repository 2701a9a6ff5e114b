"""Every setting of a run with its bound, in frozen dataclasses; the defaults are the paper's.

A field's docstring is its help text on the command line. Nothing here imports torch or gymnasium.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from visr.config.bounds import (
    Amount,
    Count,
    CountFromOne,
    Fraction,
    Positive,
    Resource,
    Size,
    SizeFromTwo,
    SizeOrZero,
    Threads,
)
from visr.config.replay import ReplayConfig

GRID, ATARI, MINATAR, DATASET = "visr/Grid-v0", "ALE/", "MinAtar/", "dataset/"
"""The id of the grid world; prefixes of games of Atari and MinAtar, and of datasets without environment."""
MINIGRID = "visr/MiniGrid-"
"""The prefix of MiniGrid tasks with numbered states."""

Algorithm = Literal[
    "visr", "replay", "fb", "nsq", "pos-nsq", "diayn", "rf-curiosity", "idf-curiosity", "uniform",
    "dqn", "ppo", "rainbow", "simple",
]  # fmt: skip
"""The agents; `docs/agents/index.md` has their sources."""
REPLAY_LEARNERS = ("replay", "fb")
"""Agents that learn from a replay buffer of their own steps, with the settings of `ReplayConfig`."""
BASELINES = ("dqn", "ppo", "rainbow", "simple")
"""Agents with their own networks, optimiser and replay buffer; DQN and PPO are Stable-Baselines3's."""


@dataclass(frozen=True)
class GridConfig:
    """The grid world `visr/Grid-v0`; other environments ignore these settings."""

    height: Size = 10
    """Rows of the grid."""
    width: Size = 10
    """Columns of the grid."""
    layout: Literal["open", "four-rooms"] = "open"
    """Walls: none, or the classic four rooms joined by four doors."""
    max_episode_steps: Count = 0
    """Steps before a time-out, which moves the agent to a new start; 0 for no time-out."""
    same_starts: bool = False
    """After a time-out each environment returns to its own first cell, as in the authors' notebook."""


@dataclass(frozen=True)
class AtariConfig:
    """Atari games `ALE/...-v5`, prepared as in Mnih et al. (2015); others ignore these settings."""

    frame_skip: Size = 4
    """Emulator frames per step; the observation is the maximum of the last two."""
    noop_max: SizeOrZero = 30
    """Largest number of no-ops at the start of an episode."""
    max_episode_frames: CountFromOne = 18_000
    """Emulator frames before a time-out; 18,000 are five minutes."""
    sticky_actions: Fraction = 0.0
    """Probability that the emulator repeats the last action instead."""
    full_action_space: bool = False
    """Use all 18 actions instead of the game's own."""
    zero_discount_on_life_loss: bool = True
    """In training, set the discount to 0 when a life is lost; the episode continues."""


@dataclass(frozen=True)
class MinAtarConfig:
    """Games `MinAtar/...-v1` of Young and Tian (2019); other environments ignore these settings."""

    repeat_probability: Fraction = 0.1
    """Probability that a game repeats the last action instead."""
    difficulty_ramping: bool = True
    """Games become harder over time."""
    max_game_steps: CountFromOne = 5_000
    """Steps before a time-out."""


@dataclass(frozen=True)
class GymConfig:
    """Any other Gymnasium environment."""

    vectorize: Literal["sync", "async"] = "sync"
    """Run all copies in one process, or each in its own (for slow environments)."""
    discretise: Count = 0
    """Number of values for each dimension of a continuous action; 0 if actions are discrete."""


@dataclass(frozen=True)
class AgentConfig:
    """What is learnt, and how the agent acts; fields that belong to another algorithm are ignored."""

    algorithm: Algorithm = "visr"
    """VISR or a baseline; docs/agents/index.md describes each."""
    num_features: SizeFromTwo = 5
    """d, the length of phi, of psi's cumulants and of w."""
    features: Literal["learned", "random"] = "learned"
    """Train phi to infer w, or leave it as initialised (the paper's RF VISR)."""
    cumulant: Literal["next", "current"] = "next"
    """psi sums phi(s') as in Eq. 3 and the authors' code, or phi(s) as Algorithm 1 is printed."""
    objective: Literal["visr", "metra", "laplacian"] = "visr"
    """What phi learns: to infer w, temporal distance, or slow features."""
    bonus: Literal["none", "rnd", "particles"] = "none"
    """Exploration bonus b (psi sums phi + b w): random network distillation, or nearest neighbours in phi."""
    bonus_scale: Amount = 0.1
    """Mean of the bonus per step; phi . w lies between -1 and 1."""
    bonus_num_steps: Count = 0
    """Steps over which the bonus falls linearly to 0; 0 keeps it constant."""
    bonus_neighbours: Size = 5
    """Bonus `particles`: number of nearest neighbours."""
    task_distribution: Literal["uniform", "visited"] = "uniform"
    """Tasks that psi learns: the ones pursued, or for a share of unrolls tasks that reward visited states."""
    task_mix: Fraction = 0.5
    """Task distribution `visited`: share of unrolls that psi learns under such a task."""
    task_steps: Count = 0
    """Task distribution `visited`: steps that share a task; 0 for a whole unroll."""
    value_weight: Amount = 0.0
    """Extra weight of psi's error along w, the direction that w's own policy uses."""
    torso: Literal["auto", "small", "mlp", "minatar", "nips", "nature", "impala"] = "auto"
    """Network that reads observations: an MLP, or for images IMPALA's (`auto`) or a `small` one."""
    core: Literal["auto", "lstm", "none"] = "auto"
    """psi's memory; `auto`: an LSTM of 256 units after an image torso, none after an MLP. phi has none."""
    hidden_sizes: tuple[Size, ...] = (100, 100)
    """Hidden layers of phi and of psi if the torso is an MLP."""
    phi_layers: Count = 0
    """How many of these layers phi has, counted from the first; 0 for all."""
    head_size: Size = 256
    """Hidden units of psi's MLP per cumulant, after an image torso or an LSTM."""
    normalise_observations: bool = True
    """Scale vector observations to mean 0 and standard deviation 1 by running statistics."""
    centred_features: bool = False
    """Subtract the mean output of phi's image torso, so that similar screens get different features."""
    feature_centre: Literal["latest", "batch"] = "batch"
    """The mean where phi does not learn: the latest batch's, fixed for random phi; or a running one."""
    gpi: bool = True
    """Act by generalised policy improvement over w and sampled neighbours; otherwise by w's own policy."""
    gpi_samples: Size = 10
    """Number of neighbours of w drawn at every step."""
    gpi_distribution: Literal["vmf", "uniform"] = "vmf"
    """Neighbours of w: von Mises-Fisher around w (paper), or uniform (authors' notebook)."""
    gpi_kappa: Amount = 5.0
    """Concentration of the von Mises-Fisher distribution."""
    epsilon: Fraction = 0.05
    """Probability of a uniformly random action."""
    gamma: Fraction = 0.99
    """Discount of the successor features."""
    n_step: CountFromOne = 1
    """Length of the n-step return; it is shorter at the end of an unroll."""
    target_period: CountFromOne = 10_000
    """Updates between copies of psi into its target network; 1 for no target network."""
    psi_learning_rate: Positive = 1e-4
    """Adam's learning rate for psi."""
    psi_adam_epsilon: Positive = 1e-3
    """Adam's epsilon for psi."""
    phi_learning_rate: Positive = 1e-4
    """Adam's learning rate for phi."""
    phi_adam_epsilon: Positive = 1e-3
    """Adam's epsilon for phi."""
    phi_num_steps: Count = 0
    """Steps after which phi is frozen; its learning rate falls linearly until then. 0: never frozen."""
    learning_rate_decay: Literal["none", "linear"] = "none"
    """Keep learning rates constant, or let them fall linearly to 0 over `num_steps`."""
    constant_reward: Positive = 0.01
    """Pos-Reward NSQ: reward of every step; with gamma = 0.99 its discounted sum is at most 1."""
    num_skills: SizeFromTwo = 5
    """DIAYN: number of skills."""
    diayn_subtract_prior: bool = True
    """DIAYN: reward log q(z | s') - log p(z) as published; otherwise log q(z | s') as in VISR's paper."""
    curiosity_size: Size = 512
    """Curiosity: units of its features and of the layers of its models."""
    rainbow_recipe: Literal["hessel", "data-efficient"] = "hessel"
    """Rainbow: settings of Hessel et al. (2018), or of van Hasselt et al. (2019) for 100,000 steps."""

    @property
    def exploration(self) -> float:
        """Probability of a random action while acting."""
        return 1.0 if self.algorithm == "uniform" else self.epsilon


@dataclass(frozen=True)
class TrainingConfig:
    """Length of a run, batches, processes, devices, and how often it logs and saves."""

    num_steps: CountFromOne = 250_000_000
    """Total agent steps, summed over environments; rounded up to whole rounds of unrolls."""
    num_envs: Size = 100
    """Number of parallel environments."""
    unroll_length: Size = 40
    """Steps per unroll; every unroll has its own w."""
    batch_size: Size = 32
    """Unrolls per update."""
    seed: Count = 0
    """Random seed; it fixes every random draw of the run."""
    num_processes: Size = 1
    """Processes: the first learns, and acts for a group that is left; results do not depend on it."""
    num_actor_groups: Size = 1
    """Groups of environments; each acts in one process, or on a cluster in one Ray actor."""
    device: str = "auto"
    """Device of the networks: cpu, cuda, cuda:1, ...; `auto`: a GPU if there is one."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Number format inside image torsos; `auto`: bfloat16 if the hardware has it."""
    channels_last: bool = True
    """Memory layout of images: the channels of a pixel side by side, which is faster."""
    micro_batch: SizeOrZero = 0
    """Unrolls per forward and backward pass; their gradients are summed. 0: the whole batch."""
    num_threads: Threads = 1
    """Threads per operation; 1 is fastest for small networks, 0 uses all cores (for image torsos)."""
    num_rewarded_envs: SizeOrZero = 0
    """Environments used for evaluation only: they see rewards and act on a running regression of w."""
    rewarded_window: Size = 100_000
    """Most recent steps of the rewarded environments that the running regression uses."""
    log_every: CountFromOne = 100_000
    """Steps between rows of metrics."""
    checkpoint_every: CountFromOne = 2_000_000
    """Steps between checkpoints; the last two are kept."""
    evaluate_every: CountFromOne = 2_000_000
    """Steps between exact evaluations (grid worlds only)."""
    on_trouble: Literal["stop", "warn"] = "stop"
    """What to do if phi collapses or psi is dead or explodes; NaN and inf always stop a run."""


@dataclass(frozen=True)
class InferenceConfig:
    """How w is inferred from rewards."""

    centred: bool = False
    """Subtract the means of phi and r first, so that a constant offset of the reward does not change w."""
    ridge: Amount = 0.0
    """Ridge penalty, relative to the mean of phi's second moments; 0 for least squares (paper)."""
    whitened: bool = False
    """Whiten the features first, and use the coefficients of the whitened features as w."""
    clip_rewards: bool = True
    """Fit the environment's rewards clipped to [-1, 1], as in the paper; scores are never clipped."""
    recorded_steps: Count = 100_000
    """Reward-free steps saved with a finished run if observations are small; 0 saves none."""


@dataclass(frozen=True)
class ClusterConfig:
    """How `--cluster` divides the work; each group of environments is one actor process."""

    max_staleness: SizeOrZero = 0
    """Updates that the weights behind an unroll may lag when it is learnt from; 0: act and learn in turns."""
    publish_every: Size = 1
    """Updates between publications of the weights; with max_staleness 0, at the end of each round."""
    unroll_timeout: Positive = 300.0
    """Seconds after which an actor that has not finished its unroll is replaced."""
    cpus_per_actor: Resource = 1.0
    """CPUs that each actor reserves."""
    gpus_per_actor: Resource = 0.0
    """GPUs that each actor reserves; with a fraction, several share one."""
    num_learners: Size = 1
    """Number of learners; they share every batch and sum their gradients."""
    cpus_per_learner: Resource = 1.0
    """CPUs that each learner reserves; if `num_threads` is 0, also its threads."""
    gpus_per_learner: Resource = 0.0
    """GPUs that each learner reserves."""


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
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)

    @property
    def is_grid(self) -> bool:
        """Whether the environment is the grid world."""
        return self.env == GRID

    @property
    def is_atari(self) -> bool:
        """Whether the environment is an Atari game."""
        return self.env.startswith(ATARI)

    @property
    def has_environment(self) -> bool:
        """Whether there is an environment to step in; a dataset alone has none."""
        return not self.env.startswith(DATASET)

    @property
    def life_loss_terminates(self) -> bool:
        """Whether a lost life ends the return in training."""
        return self.is_atari and self.atari.zero_discount_on_life_loss


SECTIONS = tuple(f.name for f in fields(RunConfig) if f.name != "env")
