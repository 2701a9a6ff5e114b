"""Every choice a run can make, as frozen dataclasses; defaults are the paper's.

This room imports neither torch nor gymnasium, so that help texts, reports and validation stay instant.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

GRID = "visr/Grid-v0"
"""The id of the grid world, the one environment with an exact model."""
ATARI = "ALE/"
"""How the ids of Atari games begin."""
MINATAR = "MinAtar/"
"""How the ids of MinAtar's games begin."""

Algorithm = Literal[
    "visr",
    "nsq",
    "pos-nsq",
    "diayn",
    "rf-curiosity",
    "idf-curiosity",
    "uniform",
    "dqn",
    "ppo",
    "rainbow",
]
"""The agents; `docs/agents.md` has their sources."""
BASELINES = ("dqn", "ppo", "rainbow")
"""Those with networks, optimisers and memories of their own; the first two are Stable-Baselines3's."""


@dataclass(frozen=True)
class Bound:
    """The smallest and the largest number that a field may hold; of a text or a list, its length."""

    low: float = -math.inf
    high: float = math.inf

    def contains(self, value: float) -> bool:
        """Whether a number lies within."""
        return self.low <= value <= self.high

    def words(self) -> str:
        """To follow "is not a number"."""
        if self.high == math.inf:
            return "" if self.low == -math.inf else f" of at least {self.low:g}"
        is_symmetric = self.low in (-math.inf, -self.high)
        return (
            f" of at most {self.high:g}" if is_symmetric else f" from {self.low:g} to {self.high:g}"
        )


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
    task_steps: int = 0
    """With `visited`: steps that share such a task; 0: all of an unroll. Fewer mean more tasks per update."""
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
    rainbow_recipe: Literal["hessel", "data-efficient"] = "hessel"
    """Rainbow: settings of Hessel et al. (2018), or those of van Hasselt et al. (2019) for 100,000 steps."""

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
    on_trouble: Literal["stop", "warn"] = "stop"
    """What to do when phi has collapsed, psi is dead or explodes; NaN and infinities always stop a run."""


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
    """Rewarded steps in all, rounded up to whole unrolls of all environments."""
    from_scratch: bool = False
    """Begin with fresh weights instead of the run's: the same learner without pre-training."""
    num_envs: int = 8
    """Environments that act side by side."""
    unroll_length: int = 20
    """Steps per unroll."""
    batch_size: int = 8
    """Unrolls per update, drawn from all that are remembered."""
    updates_per_round: int = 32
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
    sweep_steps: int = 0
    """Steps at first that pursue new random tasks, as in pre-training: varied experience to learn from."""
    gpi_steps: int = 10_000
    """Steps at first that act by GPI over w and the run's saved tasks, with psi as pre-trained."""
    exploration_steps: int = 10_000
    """From scratch: steps over which epsilon falls from 1."""
    free_steps: int = 0
    """Reward-free steps of the pre-trained agent to learn from as well, worth what a model says."""
    free_epsilon: float = 0.9
    """In these, and in the sweep, every round of unrolls draws its epsilon anew, up to this."""
    free_share: float = 0.5
    """Of every batch, the share that is such steps."""
    free_updates: int = 6_000
    """Updates on such steps alone, once a reward is known and before Q acts."""
    checkpoint_every: int = 20_000
    """Steps between checkpoints; the last two are kept."""
    seed: int = 0
    """Decides all random draws."""


SECTIONS = ("grid", "atari", "minatar", "gym", "agent", "training", "inference", "cluster")

RESOURCES = ("cpus_per_actor", "gpus_per_actor", "cpus_per_learner", "gpus_per_learner")
"""Fields that only say how much of a cluster its processes ask for."""
