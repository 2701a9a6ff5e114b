"""The public Python API: pretrain, resume, load."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from visr import arguments, pretraining
from visr import config as configuration
from visr.config import GRID, RunConfig, presets
from visr.envs import modules
from visr.errors import UserError, short_repr
from visr.inference import dataset_unrolls
from visr.play.policy import Policy
from visr.run import Run
from visr.sharing import pack, pull, push
from visr.storage import packed_models
from visr.storage.records.grid import Evaluation
from visr.storage.records.task import Task, mix
from visr.storage.run_dir import RunDir
from visr.training import progress
from visr.training.driver import Observer

__all__ = [
    "Evaluation",
    "Policy",
    "Run",
    "Task",
    "UserError",
    "load",
    "mix",
    "pack",
    "pretrain",
    "pull",
    "push",
    "resume",
]


WITH_DATASET = "With a dataset, num_updates says how long training is; leave out num_steps."


@arguments.checked
def pretrain(
    env: str | EnvSpec | gymnasium.Env | Callable[..., gymnasium.Env] | None = None,
    *,
    preset: str | None = None,
    out: str | Path | None = None,
    cluster: str | None = None,
    observe: Observer | None = None,
    wandb: bool = False,
    **fields: Any,
) -> Run:
    """Pre-train without rewards and return the run; `fields` are any of the configuration's.

    `env` is an id, a registered environment or its spec, or a class or function that makes one; by default
    the grid world. With `dataset`, an .npz file or "minari:ID", the replay learner learns from recorded
    steps, and without `env` no environment is needed.
    `cluster` trains on Ray: "local" starts it here, "auto" or "ray://host:port" joins one that runs.
    `observe` is called with the progress (`num_steps`, `total_steps`, `metrics`, ...) after every round.
    `wandb` logs the metrics to Weights & Biases.

    >>> run = visr.pretrain("visr/Grid-v0", num_steps=1_000_000, seed=1)
    """
    dataset = _dataset(fields)
    with arguments.user_code(f"env = {short_repr(env)} is no environment to train in"):
        env = None if env is None else modules.id_of(env)
    if env is None:
        env = dataset_unrolls.dataset_id(dataset) if dataset else GRID
    configuration.check_env(env)
    algorithm = fields.get("algorithm")
    if preset is not None:
        config = presets.get(preset)
    elif dataset:
        config = presets.for_dataset(env, algorithm)
    else:
        config = presets.for_environment(env, algorithm, fields)
    config = presets.for_steps(config, fields.get("num_steps"))
    config = configuration.trainable(configuration.replace(config, env=env, **fields))
    path = arguments.path(out, "out") if out is not None else default_path(config)
    arguments.observer(observe)
    modules.trust(env, remember=True)
    observe = observe or progress.notebook_progress()
    return Run(pretraining.start(path, config, observe, cluster, wandb))


@arguments.checked
def resume(
    path: str | Path,
    *,
    num_steps: int | None = None,
    cluster: str | None = None,
    observe: Observer | None = None,
    wandb: bool = False,
    accept_cost: bool = False,
) -> Run:
    """Go on with a run that was stopped or killed, to the end it would have had.

    `num_steps` extends it, finished or not, to so many steps in all. `accept_cost` goes on although
    the run's settings ask for much memory or time.
    """
    arguments.observer(observe)
    observe = observe or progress.notebook_progress()
    path = arguments.path(path, "path")
    return Run(pretraining.resume(path, None, observe, cluster, num_steps, wandb, accept_cost))


def _dataset(fields: dict[str, Any]) -> str:
    """The dataset's name among the fields, as text; "" without one."""
    given = fields.get("dataset")
    if given is None or (isinstance(given, str) and not given):
        return ""
    if "num_steps" in fields:
        raise UserError(WITH_DATASET)
    fields["dataset"] = str(arguments.path(given, "dataset"))
    return fields["dataset"]


@arguments.checked
def load(path: str | Path, *, device: str = "auto", env: str | None = None) -> Run:
    """A finished run, one still in training as of its newest checkpoint, or a packed model.

    A packed model is a file that `visr pack` wrote, or `pretrained:NAME`. Its tasks and what is inferred or
    recorded with it are written under runs/packed-NAME-... or runs/pretrained-NAME. `env` names the
    environment to act in, for a run that learnt from a dataset and knows none.
    """
    given = arguments.path(path, "path")
    path = path if isinstance(path, str) else given  # a Path cannot hold `pretrained:NAME`
    if packed_models.is_packed(path):
        model = packed_models.open_model(path)
        return Run(model.run_dir(), device, model, env)
    return Run(RunDir.open(path), device, env=env)


def default_path(config: RunConfig) -> Path:
    """A place under runs/ that is still free."""
    module, _, name = config.env.rpartition(":")
    own = f"{Path(module).stem}-{name}" if module.endswith(".py") else config.env
    if not config.has_environment:
        own = f"dataset-{Path(config.replay.dataset.rpartition(':')[2]).stem}"
    stem = re.sub(r"\W+", "-", own).lower()
    candidates = (Path("runs") / f"{stem}-{number}" for number in range(1, 1_000_000))
    return next(path for path in candidates if not path.exists())
