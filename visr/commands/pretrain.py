"""visr pretrain: the reward-free phase."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from visr.commands import options, output
from visr.config import (
    GRID,
    RESOURCES,
    SECTIONS,
    AgentConfig,
    AtariConfig,
    ClusterConfig,
    GridConfig,
    GymConfig,
    InferenceConfig,
    MinAtarConfig,
    RunConfig,
    TrainingConfig,
    field_names,
    presets,
    trainable,
)
from visr.errors import UserError
from visr.storage.run_dir import RunDir


@dataclass(frozen=True)
class Options:
    """Learn phi and psi in an environment without looking at its rewards."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")] = GRID
    """Environment id; `visr list envs` names some."""
    preset: str | None = None
    """Where the defaults below come from; `visr list presets` names them."""
    out: str | None = None
    """Directory of the new run; by default a new one under runs/."""
    resume: str | None = None
    """Go on with this run instead, to the same end as if it had never stopped."""
    where: Annotated[str | None, tyro.conf.arg(name="cluster", metavar="WHERE")] = None
    """Train on Ray: `local` starts it on this machine, `auto` or ray://HOST:PORT joins a running cluster."""
    json: bool = False
    """Print the result as one JSON object."""
    grid: GridConfig = field(default_factory=GridConfig)
    atari: AtariConfig = field(default_factory=AtariConfig)
    minatar: MinAtarConfig = field(default_factory=MinAtarConfig)
    gym: GymConfig = field(default_factory=GymConfig)
    agent: AgentConfig = field(default_factory=AgentConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)


_HARMLESS = ("num_processes", "unroll_timeout", *RESOURCES)
"""What may differ when a run is resumed: it does not change a result."""


def run(args: list[str]) -> int:
    """Train, say where the run is, and stop cleanly when asked to."""
    default = _defaults(args)
    chosen = options.parse(Options, args, "pretrain", default)
    if chosen.env != default.env:  # another environment has other defaults
        default = _defaults(args, chosen.env)
        chosen = options.parse(Options, args, "pretrain", default)
    if chosen.resume is not None:
        _refuse_changes(default, chosen)
    config = trainable(_config(chosen))
    if chosen.where is None:
        _refuse_idle_settings(config)
    from visr import api, envs, pretraining

    if chosen.resume is None:
        envs.trust(config.env)
    with output.training_progress() as observe, _quiet_threads():
        if chosen.resume is not None:
            processes = chosen.training.num_processes
            directory = pretraining.resume(chosen.resume, processes, observe, chosen.where)
        else:
            path = api.default_path(config) if chosen.out is None else chosen.out
            directory = pretraining.start(path, config, observe, chosen.where)
    _show(directory, chosen.json)
    return 0


def _defaults(args: list[str], env: str = Options.env) -> Options:
    """What holds where the command line is silent: the resumed run's choices, or a preset's."""
    resumed, preset = _value_of("--resume", args), _value_of("--preset", args)
    if resumed is not None:
        base = RunDir.open(resumed).config()
    elif preset is not None:
        base = presets.get(preset)
    else:
        base = presets.for_environment(env)
    sections = {name: getattr(base, name) for name in SECTIONS}
    return Options(env=base.env, **sections)


@contextlib.contextmanager
def _quiet_threads() -> Iterator[None]:
    """TensorBoard's thread hands us a refusing disk's error and prints it too; once is enough."""
    before = threading.excepthook

    def hook(arguments: threading.ExceptHookArgs) -> None:
        if not issubclass(arguments.exc_type, OSError):
            before(arguments)

    threading.excepthook = hook
    try:
        yield
    finally:
        threading.excepthook = before


def _value_of(flag: str, args: list[str]) -> str | None:
    for index, word in enumerate(args):
        if word == flag and index + 1 < len(args):
            return args[index + 1]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def _config(chosen: Options) -> RunConfig:
    return RunConfig(chosen.env, **{name: getattr(chosen, name) for name in SECTIONS})


def _refuse_changes(before: Options, after: Options) -> None:
    """A resumed run ends as it would have; only what cannot change its result may change."""
    for name, section in {"env": "", **field_names()}.items():
        old, new = (getattr(o, section) if section else o for o in (before, after))
        if name not in _HARMLESS and getattr(old, name) != getattr(new, name):
            raise UserError(
                f"{name} = {getattr(new, name)!r} differs from the run's {getattr(old, name)!r}; "
                "--resume goes on with a run as it is, so start a new one with --out instead."
            )
    if after.out is not None or after.preset is not None:
        raise UserError("--resume names its run itself; leave out --out and --preset.")


def _refuse_idle_settings(config: RunConfig) -> None:
    """Without a cluster its settings would do nothing."""
    for setting in dataclasses.fields(ClusterConfig):
        if (value := getattr(config.cluster, setting.name)) != setting.default:
            raise UserError(
                f"{setting.name} = {value} has a meaning only on a cluster; add --cluster local, "
                "or leave it out."
            )


def _show(directory: RunDir, as_json: bool) -> None:
    evaluation = directory.last_row(directory.evaluation)
    evaluation.pop("num_steps", None)
    metrics = directory.last_row(directory.metrics)
    counts = {name: int(metrics[name]) for name in ("num_steps", "num_updates") if name in metrics}
    result = {
        "run": str(directory.path),
        **metrics,
        **counts,
        "fraction_of_optimal": evaluation,
    }
    if as_json:
        output.emit(result)
        return
    rows = [("run", str(directory.path))]
    if "num_steps" in counts:
        rows += [("steps", f"{counts['num_steps']:,}")]
    if "intrinsic_reward" in metrics:
        is_visr = directory.config().agent.algorithm == "visr"
        name = "phi(s').w" if is_visr else "intrinsic reward"
        rows += [(name, f"{metrics['intrinsic_reward']:.3f}")]
    rows += [
        (f"fraction of optimal, {name}", f"{evaluation[name]:.3f}")
        for name in ("span", "boxes", "goals")
        if name in evaluation
    ]
    output.table("pre-training finished", rows)
