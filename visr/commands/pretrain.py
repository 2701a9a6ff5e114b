"""visr pretrain: training without rewards."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import inspect
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from visr import terminal
from visr.commands import options, output
from visr.config import (
    GRID,
    SECTIONS,
    ClusterConfig,
    RunConfig,
    field_names,
    file,
    presets,
    replace,
    trainable,
)
from visr.config.load import whole_number
from visr.errors import UserError
from visr.storage.records.library import Library
from visr.storage.run_dir import RunDir
from visr.strict_json import encodable


@dataclass(frozen=True)
class Options(RunConfig):
    """Train phi and psi in an environment without its rewards."""

    env: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENV")] = GRID
    """Environment id; `visr list envs` names some."""
    preset: str | None = None
    """Source of the defaults below; `visr list presets` names them."""
    out: str | None = None
    """Directory of the new run; by default a new one under runs/."""
    resume: str | None = None
    """Continue this run as if it had not been interrupted; a larger --num-steps extends it."""
    accept_cost: bool = False
    """With --resume: go on although the run's settings ask for much memory or time."""
    where: Annotated[str | None, tyro.conf.arg(name="cluster", metavar="WHERE")] = None
    """Train on Ray: `local` starts it on this machine, `auto` or ray://HOST:PORT joins a running cluster."""
    config: str | None = None
    """Read settings from this TOML file, or from a run's config.json; flags win over it."""
    print_config: bool = False
    """Print all settings as TOML, for --config, and stop."""
    seeds: tuple[int, ...] = ()
    """Train once with each of these seeds, into OUT/seed-N; `visr report OUT` summarises them."""
    wandb: bool = False
    """Log the metrics to Weights & Biases (extra `wandb`); WANDB_MODE=offline writes files only."""
    json: options.Json = False


_EXAMPLE = "visr pretrain CartPole-v1 --num-steps 500k --out runs/pole"
_COMMON = (
    *("num_steps", "preset", "out", "seed", "num_features", "algorithm"),
    *("resume", "num_envs", "psi_learning_rate", "config"),
)
"""The flags on the first screen of help."""
_RESOURCES = ("cpus_per_actor", "gpus_per_actor", "cpus_per_learner", "gpus_per_learner")
_HARMLESS = ("num_processes", "unroll_timeout", *_RESOURCES)
"""Settings that may differ when a run is resumed, because they do not change its result."""


def run(args: list[str]) -> int:
    """Train, and print where the run is and how good it is."""
    if not {"-h", "--help"}.isdisjoint(args):
        _help(args)
        return 0
    args = ["--help" if word == "--help-all" else word for word in args]
    default = _defaults(args)
    chosen = options.parse(Options, args, "pretrain", default)
    _refuse_steps_of_dataset(chosen, default)
    if not any(word for word in args if word.startswith("--")) and chosen.env not in args:
        terminal.say(f"No ENV was named: this trains in {chosen.env}.")
    if chosen.env != default.env:  # another environment has other defaults
        default = _defaults(args, chosen.env)
        chosen = options.parse(Options, args, "pretrain", default)
    if chosen.resume is None:
        options.refuse(chosen, ("accept_cost",), "belongs to --resume")
    else:
        _refuse_changes(RunDir.open(chosen.resume).config(), chosen)
    config = trainable(_config(chosen))
    if chosen.where is None:
        _refuse_cluster_settings(config)
    if chosen.print_config:
        terminal.show_lines(file.to_toml(config).rstrip("\n"))
        return 0
    if not chosen.seeds:
        directory = _train(chosen, config, chosen.out)
        result = _result(directory)
        rows, remarks = _rows(result, directory), _next(directory)
        output.show(result, chosen.json, "pre-training finished", rows, remarks=remarks)
        return 0
    _train_seeds(chosen, config)
    return 0


def _train(chosen: Options, config: RunConfig, out: str | Path | None) -> RunDir:
    from visr import api, pretraining
    from visr.envs import modules
    from visr.training import metric_loggers, progress

    if chosen.resume is None:
        modules.trust(config.env, remember=True)
    if chosen.wandb:
        metric_loggers.require_wandb()  # it may ask for a key
    with progress.training_progress() as observe:
        if chosen.resume is not None:
            processes = chosen.training.num_processes
            num_steps = config.training.num_steps
            return pretraining.resume(
                chosen.resume,
                processes,
                observe,
                chosen.where,
                num_steps,
                chosen.wandb,
                chosen.accept_cost,
            )
        path = api.default_path(config) if out is None else out
        return pretraining.start(path, config, observe, chosen.where, chosen.wandb)


def _next(directory: RunDir) -> list[str]:
    """A first prompt to try, for agents that take one."""
    from visr import envs

    config = directory.config()
    if config.agent.algorithm not in ("visr", "replay", "fb"):
        return []
    if envs.exact_model(config) is not None:
        return [f"Next: visr infer {directory.path} --reward boxes:7"]
    names = envs.space_codec(config).field_names
    if not names:  # images
        return [f"Next: visr infer {directory.path} --reward env"]
    example = f"{names[0]} > 0" if names != ["state"] else "state == 0"
    return [f'Next: visr infer {directory.path} --reward "{example}" --name first']


def _train_seeds(chosen: Options, config: RunConfig) -> None:
    """One run after another, which differ in their seed only."""
    from visr import api

    if chosen.resume is not None or len(set(chosen.seeds)) != len(chosen.seeds):
        raise UserError(
            "--seeds takes different numbers and no --resume; resume each run by itself."
        )
    out = api.default_path(config) if chosen.out is None else Path(chosen.out)
    results = []
    for seed in chosen.seeds:
        path = out / f"seed-{seed}"
        if (path / "config.json").exists():
            raise UserError(f"{path} exists already; choose another --out.")
    for seed in chosen.seeds:
        output.say(f"seed {seed}: {out / f'seed-{seed}'}")
        results.append(_result(_train(chosen, replace(config, seed=seed), out / f"seed-{seed}")))
    names = [
        name for name in ("span", "boxes", "goals") if name in results[0]["fraction_of_optimal"]
    ]
    rows = [
        (r["run"], f"{r['num_steps']:,}", *(f"{r['fraction_of_optimal'][n]:.3f}" for n in names))
        for r in results
    ]
    header = ("run", "steps", *(f"fraction of optimal, {name}" for name in names))
    remarks = [f"Next: visr report {out}"]
    title = f"pre-training finished with {len(results)} seeds"
    output.show({"runs": results}, chosen.json, title, rows, header, remarks=remarks)


def _help(args: list[str]) -> None:
    """The flags that most people use, with the defaults of the environment that is named."""
    from rich.console import Console
    from rich.table import Table

    words = [word for word in args if not word.startswith("-")]
    default = _defaults(args, words[0]) if words[:1] and args[0] == words[0] else _defaults(args)
    console = Console(highlight=False, markup=False, emoji=False)
    summary = f"{Options.__doc__} The defaults below are those of {default.env}."
    console.print(f"usage: visr pretrain ENV [flags]\n\n{summary}\n\n  {_EXAMPLE}\n")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    known = {name: (value, text) for name, value, text in _fields(default)}
    for flag in _COMMON:
        value, text = known[flag]
        table.add_row(f"--{flag.replace('_', '-')}", _shown(value), text)
    console.print(table)
    console.print("\nEverything else, by section: visr pretrain --help-all")


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if type(value) is int else encodable(str(value))


def _fields(options: Any) -> Iterator[tuple[str, Any, str]]:
    """Every field of a dataclass and of the dataclasses in it: name, value and help text."""
    texts = field_texts(type(options))
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if dataclasses.is_dataclass(value):
            yield from _fields(value)
        else:
            yield field.name, value, texts.get(field.name, "")


@functools.cache
def field_texts(cls: type) -> dict[str, str]:
    """The string that follows each field in the source of a dataclass and of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(tree, ast.ClassDef)
        for field, text in zip(tree.body, tree.body[1:], strict=False):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                assert isinstance(field.target, ast.Name)
                assert isinstance(text.value, ast.Constant)
                texts[field.target.id] = " ".join(str(text.value.value).split())
    return texts


def _refuse_steps_of_dataset(chosen: Options, default: Options) -> None:
    """Updates say how long training on a dataset is; a resumed run can be extended."""
    is_changed = chosen.training.num_steps != default.training.num_steps
    if chosen.replay.dataset and chosen.resume is None and is_changed:
        from visr.api import WITH_DATASET

        raise UserError(WITH_DATASET)


def _defaults(args: list[str], env: str | None = None) -> Options:
    """Defaults of the options: of the resumed run, of the preset, or of the environment or dataset."""
    resumed, preset = _value_of("--resume", args), _value_of("--preset", args)
    given = _value_of("--config", args)
    fields = {} if given is None else file.read(given)
    if resumed is not None:
        base = RunDir.open(resumed).config()
    else:
        dataset = _value_of("--dataset", args) or fields.get("dataset")
        named = env or fields.get("env") or (_id_of_dataset(dataset) if dataset else GRID)
        fields = {**fields, "env": named}
        algorithm = _value_of("--algorithm", args) or fields.get("algorithm")
        if preset is not None:
            base = presets.get(preset)
        elif dataset:
            base = presets.for_dataset(named, algorithm)
        else:
            base = presets.for_environment(named, algorithm, [*fields, *_flags(args)])
        base = presets.for_steps(base, _steps(args) or fields.get("num_steps"))
    base = replace(base, **fields)
    sections = {name: getattr(base, name) for name in SECTIONS}
    return Options(env=base.env, **sections)


def _steps(args: list[str]) -> int | None:
    """The number of steps that the command line names, if it is one."""
    with contextlib.suppress(ValueError):
        return whole_number(_value_of("--num-steps", args) or "")
    return None


def _flags(args: list[str]) -> list[str]:
    """The settings that the command line names."""
    words = (word.partition("=")[0] for word in args if word.startswith("--"))
    return [word.removeprefix("--").removeprefix("no-").replace("-", "_") for word in words]


def _id_of_dataset(source: Any) -> str:
    from visr.inference import dataset_unrolls

    return dataset_unrolls.dataset_id(str(source))


def _value_of(flag: str, args: list[str]) -> str | None:
    for index, word in enumerate(args):
        if word == flag and index + 1 < len(args):
            return args[index + 1]
        if word.startswith(f"{flag}="):
            return word.removeprefix(f"{flag}=")
    return None


def _config(chosen: Options) -> RunConfig:
    return RunConfig(chosen.env, **{name: getattr(chosen, name) for name in SECTIONS})


def _refuse_changes(before: RunConfig, after: Options) -> None:
    """Refuse to resume with settings that would change the result."""
    for name, section in {"env": "", **field_names()}.items():
        old, new = (getattr(o, section) if section else o for o in (before, after))
        if name not in (*_HARMLESS, "num_steps") and getattr(old, name) != getattr(new, name):
            raise UserError(
                f"{name} = {getattr(new, name)!r} differs from the run's {getattr(old, name)!r}; "
                "--resume changes nothing but num_steps, so start a new run with --out instead."
            )
    if after.out is not None or after.preset is not None:
        raise UserError("--resume names the run already; leave out --out and --preset.")


def _refuse_cluster_settings(config: RunConfig) -> None:
    """Settings of a cluster have no effect without one."""
    for setting in dataclasses.fields(ClusterConfig):
        if (value := getattr(config.cluster, setting.name)) != setting.default:
            raise UserError(
                f"{setting.name} = {value} only has an effect on a cluster; add --cluster local, "
                "or leave it out."
            )


def _result(directory: RunDir) -> dict[str, Any]:
    evaluation = directory.last_row(directory.evaluation)
    evaluation.pop("num_steps", None)
    metrics: dict[str, Any] = directory.last_row(directory.metrics)
    counts = {name: int(metrics[name]) for name in ("num_steps", "num_updates") if name in metrics}
    found = {"run": str(directory.path), **metrics, **counts, "fraction_of_optimal": evaluation}
    if directory.library.exists() and (words := Library.load(directory.library).agent_words):
        found["agent"] = words
    return found


def _rows(result: dict[str, Any], directory: RunDir) -> list[tuple[str, ...]]:
    rows = [("run", result["run"])]
    if "num_steps" in result:
        rows.append(("steps", f"{result['num_steps']:,}"))
    if "agent" in result:
        rows.append(("agent", result["agent"]))
    if "intrinsic_reward" in result:
        is_visr = directory.config().agent.algorithm == "visr"
        name = "phi(s').w" if is_visr else "intrinsic reward"
        rows.append((name, f"{result['intrinsic_reward']:.3f}"))
    evaluation = result["fraction_of_optimal"]
    for name in ("span", "boxes", "goals"):
        if name in evaluation:
            rows.append((f"fraction of optimal, {name}", f"{evaluation[name]:.3f}"))
    return rows
