"""Files that visr reads: every JSON record, tables, settings, datasets and maps of rewards.

Each begins as a valid file; the noise changes values, structure or bytes of it.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from tests.conftest import tiny
from tests.robustness.fuzz import noise
from visr import config as configuration
from visr import envs
from visr.config import FinetuneConfig, RunConfig
from visr.config import file as settings_file
from visr.errors import UserError
from visr.explorer import running_explorers
from visr.inference import dataset, grid_rewards
from visr.paper.reproduce import ledger
from visr.storage import consent, schema, tables
from visr.storage.records.episodes import EpisodeEvaluation, PolicyReturns, Returns
from visr.storage.records.finetuning import ExactScore, FinetunePlan, FinetuneResult
from visr.storage.records.grid import Evaluation
from visr.storage.records.task import Task
from visr.storage.records.two_phase import Adapted, AdaptedCondition, Condition, TwoPhase
from visr.storage.run_dir import RunDir
from visr.training import metric_loggers


class Reader(NamedTuple):
    """A kind of file: `make` gives its content, `load` writes and reads it."""

    name: str
    share: float
    make: Callable[[random.Random], Any]
    load: Callable[[Path, Any], None]


def readers() -> list[Reader]:
    """All of them."""
    records = [
        Reader(name, share, _document(content), functools.partial(_load, name, load))
        for name, share, content, load in _records()
    ]
    return [
        *records,
        Reader("ledger.csv", 2, _ledger, _load_ledger),
        Reader("metrics.csv", 2, _table, _load_table),
        Reader("settings.toml", 3, _settings, _load_settings),
        Reader("dataset.npz", 3, _dataset, _load_dataset),
        Reader("reward.csv", 1, _cells, _load_cells),
    ]


# ------------------------------------------------------------------------------------- records

TASK: dict[str, Any] = {
    "format": 1, "name": "goal", "env": "visr/Grid-v0", "w": [0.6, 0.8], "method": "by hand",
    "r_squared": 0.5, "condition_number": None, "standard_error": [0.1, None], "num_steps": 4,
    "num_rewarded": 1, "reward": [0.0, 1.0, 0.0, 0.0],
}  # fmt: skip
CONFIG: dict[str, Any] = {"format": 1, "config": configuration.to_dict(RunConfig())}
_GRID: dict[str, Any] = {"format": 1, "config": configuration.to_dict(tiny())}
_CONDITION = Condition("random policy", 1.5, 0.5, None, None, None, None, (1.0, 2.0), (3, 4))
_RETURNS = Returns(1.5, 0.5, (1.0, 2.0))


def _records() -> list[tuple[str, float, Any, Callable[[Path], Any]]]:
    """Name, share, valid content, and what reads it."""
    phase = TwoPhase(
        env="X", num_steps=9, num_rewarded_steps=8, num_rewarded_episodes=2, num_seen=1,
        num_trials=2, epsilon=0.05, clip_rewards=True, random_score=None, human_score=2.0,
        conditions=(_CONDITION,),
    )  # fmt: skip
    adapted = Adapted("X", 9, (AdaptedCondition(**vars(_CONDITION)),))
    plan = FinetunePlan(FinetuneConfig(), (np.array([0.6, 0.8]),), "goal", "asked")
    exact = ExactScore(0.5, 1.0)
    result = FinetuneResult(
        env="visr/Grid-v0", task="goal", from_scratch=False, num_steps=9, num_updates=3, seed=0,
        before=exact, after=exact,
    )  # fmt: skip
    played = EpisodeEvaluation(
        "goal", "X", "the asked reward", "env", (PolicyReturns("task", _RETURNS, _RETURNS, (1, 2)),)
    )
    exactly = Evaluation(
        "goal", 0.5, 1.0, 0.5, 2.0, 0.9, True, np.array([0, 1, 2, 3]), np.zeros(4), np.ones(4)
    )
    launch = running_explorers.Launch(1, "http://127.0.0.1:8000/?token=t", "runs/a")
    return [
        ("task.json", 4, TASK, _task),
        ("config.json", 4, CONFIG, _config),
        ("exact.evaluation.json", 1, exactly.to_dict(), lambda path: Evaluation.load(path, 4)),
        ("played.evaluation.json", 1, played.to_dict(), EpisodeEvaluation.load),
        ("phase_two.json", 1, schema.to_dict(phase), lambda path: TwoPhase.load(path, "X")),
        ("adapted.json", 1, schema.to_dict(adapted), lambda path: Adapted.load(path, "X")),
        ("finetune.json", 1, schema.to_dict(plan), lambda p: FinetunePlan.load(RunDir(p.parent))),
        ("finetuned.json", 1, schema.to_dict(result), _finetuned),
        ("visr/trusted.json", 1, {"format": 1, "trusted": [{"module": "m", "file": "/m.py"}]}, _trusted),
        ("wandb.json", 0.5, {"id": "0123456789abcdef"}, lambda p: metric_loggers._id(RunDir(p.parent))),
        ("launch.json", 0.5, schema.to_dict(launch), _launch),
    ]  # fmt: skip


def _document(content: Any) -> Callable[[random.Random], bytes]:
    return lambda random: noise.document(random, content)


def _load(name: str, load: Callable[[Path], Any], place: Path, text: bytes) -> None:
    path = place / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text)
    load(path)


def _task(path: Path) -> None:
    task = Task.load(path)
    assert abs(np.linalg.norm(task.w) - 1) < 1e-6
    assert np.isfinite(task.r_squared)
    assert not np.isnan(task.standard_error).any()
    json.dumps(task.to_dict(), allow_nan=False)


def _config(path: Path) -> None:
    config = RunDir(path.parent).config()
    assert configuration.from_dict(json.loads(json.dumps(configuration.to_dict(config)))) == config


def _finetuned(path: Path) -> None:
    (path.parent / "config.json").write_text(json.dumps(_GRID))
    FinetuneResult.load(RunDir(path.parent))


def _trusted(path: Path) -> None:
    with mock.patch.dict(os.environ, XDG_CONFIG_HOME=str(path.parent.parent)):
        consent.files("m")


def _launch(path: Path) -> None:
    if running_explorers._read(path) is None:  # it is ignored
        raise UserError("It is not a record of an explorer.")


# -------------------------------------------------------------------------------------- tables

ROWS = [
    [*ledger.Row.__dataclass_fields__],
    *(
        ["visr/x/seed-0/train", "visr", "x", "0", "train", state, *("100", "abc", "1", "2.5", "1", "2", "no")]
        for state in ("pending", "running", "done", "failed")
    ),
]  # fmt: skip
METRICS = [
    ["num_steps", "num_updates", "psi_loss"],
    *([str(i), "1", "0.5"] for i in range(0, 50, 10)),
]


def _csv(random: random.Random, valid: list[list[str]]) -> bytes:
    rows = noise.changed(random, valid) if random.randrange(4) else valid
    rows = rows if isinstance(rows, list) else [rows]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(row if isinstance(row, list) else [row] for row in rows)
    data = text.getvalue().encode(errors="surrogatepass")
    return noise.bitten(random, data) if random.randrange(2) else data


def _ledger(random: random.Random) -> bytes:
    return _csv(random, ROWS)


def _load_ledger(place: Path, text: bytes) -> None:
    (place / "ledger.csv").write_bytes(text)
    rows = ledger.read(place / "ledger.csv")
    assert all(row.state in ("pending", "running", "done", "failed") for row in rows)


def _table(random: random.Random) -> bytes:
    return _csv(random, METRICS)


def _load_table(place: Path, text: bytes) -> None:
    """All that is done with a table: read, append, cut back."""
    path = place / "metrics.csv"
    path.write_bytes(text)
    rows = tables.read_rows(path)
    assert all(isinstance(value, float) for row in rows for value in row.values())
    tables.append_rows(path, METRICS[0], [[60, 1, 0.5]])
    tables.truncate_after(path, 20)
    assert all(next(iter(row.values())) <= 20 for row in tables.read_rows(path))


# ------------------------------------------------------------------------------------ settings

_TOML = settings_file.to_toml(RunConfig())


def _settings(random: random.Random) -> bytes:
    """Some lines of a valid file, with values or characters changed."""
    lines = [line for line in _TOML.splitlines() if random.randrange(3)]
    for _ in range(random.randrange(1, 4)):
        at = random.randrange(len(lines) + 1)
        if at < len(lines) and random.randrange(2):
            name = lines[at].partition("=")[0]
            lines[at] = f"{name}= {json.dumps(noise.value(random))}"
        else:
            lines[at:at] = [noise.characters(random, random.choice(_TOML.splitlines()))]
    text = "\n".join(lines).encode(errors="surrogatepass")
    return noise.bitten(random, text) if random.randrange(3) == 0 else text


def _load_settings(place: Path, text: bytes) -> None:
    (place / "settings.toml").write_bytes(text)
    configuration.replace(RunConfig(), **settings_file.read(place / "settings.toml"))


# ------------------------------------------------------------------------------------ datasets

_CODEC = envs.space_codec(tiny(env="CartPole-v1"))
_KINDS = ("f4", "f8", "i8", "u1", "?", "c8", "U3", "S2", "M8[s]", "f2", "i4,f4")
_ARRAYS = {
    "observations": np.zeros((5, 4), np.float32),
    "next_observations": np.zeros((5, 4), np.float32),
    "actions": np.zeros(5, np.int64),
    "rewards": np.arange(5, dtype=np.float32),
    "terminations": np.zeros(5, bool),
    "truncations": np.zeros(5, bool),
    "episodes": np.zeros(5, np.int64),
}


def _array(random: random.Random, valid: np.ndarray) -> np.ndarray:
    """Another shape, kind or value."""
    kind = random.randrange(4)
    if kind == 0:
        shape = tuple(random.choice((0, 1, 2, 3, 5, 6)) for _ in range(random.randrange(4)))
        return np.resize(valid, shape)
    if kind == 1:
        return np.zeros(valid.shape, random.choice(_KINDS))
    changed = valid.astype(np.float64) if kind == 2 else valid.copy()
    number = random.choice((0.5, -1, 1e300, float("nan"), float("inf"), 2**40, 7))
    with np.errstate(all="ignore"):
        changed[random.randrange(len(changed))] = np.float64(number).astype(changed.dtype)
    return changed


def _dataset(random: random.Random) -> bytes:
    """An .npz file; one in three has bytes changed."""
    arrays = {name: array for name, array in _ARRAYS.items() if random.randrange(4)}
    for name in list(arrays):
        if random.randrange(4) == 0:
            arrays[name] = _array(random, arrays[name])
    if random.randrange(10) == 0:
        arrays[random.choice(("x", "a/b", "../x"))] = np.zeros(3)
    file = io.BytesIO()
    np.savez(file, **arrays)  # pyright: ignore[reportArgumentType]
    data = file.getvalue()
    return noise.bitten(random, data) if random.randrange(3) == 0 else data


def _load_dataset(place: Path, content: bytes) -> None:
    (place / "dataset.npz").write_bytes(content)
    steps = dataset.read(place / "dataset.npz", _CODEC)
    count = len(steps.episode)
    assert steps.reached.shape[0] == count
    assert steps.reward is None or np.isfinite(steps.reward).all()
    assert steps.action is None or len(steps.action) == count


_WORLD = envs.exact_model(tiny(height=3, width=3))


def _cells(random: random.Random) -> tuple[str, bytes]:
    """A map of rewards as text or as .npy."""
    if random.randrange(2):
        valid = [["0", "1", "0"], ["0", "0", "2.5"], ["0", "-1", "0"]]
        return "reward.csv", _csv(random, valid)
    file = io.BytesIO()
    array = np.arange(9.0).reshape(3, 3)
    np.save(file, _array(random, array) if random.randrange(2) else array)
    data = file.getvalue()
    return "reward.npy", noise.bitten(random, data) if random.randrange(2) else data


def _load_cells(place: Path, given: tuple[str, bytes]) -> None:
    name, content = given
    (place / name).write_bytes(content)
    assert _WORLD is not None
    assert np.isfinite(grid_rewards.of_cells(str(place / name), _WORLD).values).all()
