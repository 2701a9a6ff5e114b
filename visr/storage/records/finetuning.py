"""finetune.json, the settings and tasks of a fine-tuning, and finetuned.json, its scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from visr.config import FinetuneConfig
from visr.storage import schema
from visr.storage.files import read_json, write_json
from visr.storage.run_dir import RunDir

REMEDY = "restore it from a copy, or fine-tune again"


@dataclass(frozen=True, eq=False)
class FinetunePlan:
    """finetune.json: everything that determines a fine-tuning except the run."""

    FORMAT: ClassVar[int] = 1

    settings: FinetuneConfig
    saved: tuple[NDArray[np.float64], ...]
    """P x [d], the tasks that GPI uses at first: w and the run's others."""
    task: str
    """Its name; the task itself is in tasks/."""
    reward: Literal["environment", "asked"] = "environment"
    """What Q learns: the task's own reward, or, in files of older versions, the environment's."""

    def save(self, run: RunDir) -> None:
        """Write finetune.json."""
        write_json(run.finetune, schema.to_dict(self))

    @classmethod
    def load(cls, run: RunDir) -> FinetunePlan:
        """Read finetune.json."""
        content = read_json(run.finetune)
        with schema.refusing(f"{run.finetune} is damaged", REMEDY):
            return schema.read(cls, content)


def settings(run: RunDir) -> FinetuneConfig | None:
    """The settings of a fine-tuned run; None for any other run."""
    return FinetunePlan.load(run).settings if run.is_finetuned else None


@dataclass(frozen=True)
class ExactScore:
    """The exact score of a policy on the grid."""

    fraction_of_optimal: float
    value: float


@dataclass(frozen=True)
class EpisodeScore:
    """The score of a policy in other environments: raw scores of whole episodes."""

    mean: float
    standard_error: float | None
    """None after a single episode."""
    human_normalised: float | None
    scores: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class FinetuneResult:
    """finetuned.json: scores before and after."""

    FORMAT: ClassVar[int] = 1

    env: str
    task: str
    reward: str = ""
    """What Q was trained on, in words; empty in files of older versions."""
    from_scratch: bool
    num_steps: schema.Count
    """Rewarded ones."""
    num_free_steps: schema.Count = 0
    """Reward-free ones that Q learnt from as well."""
    reward_r_squared: float | None = None
    """How well the reward model predicted new rewards."""
    num_updates: schema.Count
    seed: int
    before: ExactScore | EpisodeScore
    after: ExactScore | EpisodeScore | None
    """None until it is finished."""

    def save(self, run: RunDir) -> None:
        """Write finetuned.json."""
        write_json(run.finetuned, schema.to_dict(self))

    @classmethod
    def load(cls, run: RunDir) -> FinetuneResult:
        """Read finetuned.json."""
        content = read_json(run.finetuned)
        with schema.refusing(f"{run.finetuned} is damaged", REMEDY):
            result, config = schema.read(cls, content), run.config()
            if result.env != config.env:
                raise ValueError(
                    f"its environment is {result.env!r} and the run's is {config.env!r}"
                )
            kind = ExactScore if config.is_grid else EpisodeScore
            if not isinstance(result.before, kind) or not isinstance(result.after, kind | None):
                raise ValueError(f"its scores are not those of {config.env}")
        return result
