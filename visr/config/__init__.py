"""The settings of a run: fields with bounds, checks, presets."""

# ruff: noqa: F401

from visr.config.bounds import Bound
from visr.config.check import check_env, trainable, validated
from visr.config.fields import (
    ATARI,
    BASELINES,
    DATASET,
    GRID,
    MINATAR,
    MINIGRID,
    REPLAY_LEARNERS,
    SECTIONS,
    AgentConfig,
    Algorithm,
    AtariConfig,
    ClusterConfig,
    GridConfig,
    GymConfig,
    InferenceConfig,
    MinAtarConfig,
    RunConfig,
    TrainingConfig,
)
from visr.config.finetuning import FinetuneConfig, finetune_settings
from visr.config.load import (
    all_flags,
    field_names,
    flags,
    from_dict,
    replace,
    to_dict,
)
from visr.config.replay import ReplayConfig
