"""Every choice a run can make: what there is, what it may be, and configurations as values."""

from visr.config.bounds import check as check_value
from visr.config.bounds import check_env
from visr.config.check import largest_group
from visr.config.fields import (
    ATARI,
    BASELINES,
    GRID,
    MINATAR,
    RESOURCES,
    SECTIONS,
    AgentConfig,
    Algorithm,
    AtariConfig,
    ClusterConfig,
    FinetuneConfig,
    GridConfig,
    GymConfig,
    InferenceConfig,
    MinAtarConfig,
    RunConfig,
    TrainingConfig,
)
from visr.config.load import (
    field_names,
    finetune_settings,
    from_dict,
    replace,
    to_dict,
    trainable,
    validated,
)

__all__ = [
    "ATARI",
    "BASELINES",
    "GRID",
    "MINATAR",
    "RESOURCES",
    "SECTIONS",
    "AgentConfig",
    "Algorithm",
    "AtariConfig",
    "ClusterConfig",
    "FinetuneConfig",
    "GridConfig",
    "GymConfig",
    "InferenceConfig",
    "MinAtarConfig",
    "RunConfig",
    "TrainingConfig",
    "check_env",
    "check_value",
    "field_names",
    "finetune_settings",
    "from_dict",
    "largest_group",
    "replace",
    "to_dict",
    "trainable",
    "validated",
]
