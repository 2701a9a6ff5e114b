"""Run directories written by hand, and a reader of the pages made from them; nothing is trained."""

from __future__ import annotations

import struct
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from visr import config as configuration
from visr import report
from visr.config import RunConfig
from visr.storage.files import write_json
from visr.storage.records.task import Task
from visr.storage.run_dir import RunDir, evaluation_of
from visr.storage.tables import append_rows

MARKUP = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
HOSTILE = MARKUP + "$\\frac{$ \ud800 \u202e \x00 \x1b 目标\n"
GAME = "ALE/MsPacman-v5"  # published scores: random player 307.3, human 6,951.6
STEPS = [1000, 2000, 3000]
METRICS = ["num_steps", "num_updates", "psi_loss", "intrinsic_reward", "feature_concentration"]


def new_run(path: Path, **fields: Any) -> RunDir:
    """A run without any training."""
    fields = {"height": 4, "width": 6, "num_steps": 3000, "num_features": 3, **fields}
    return RunDir.create(path, configuration.replace(RunConfig(), **fields))


# --- a grid world


def train(run: RunDir, walls: bool = False, num_tasks: int = 8) -> None:
    """Tables of three rows, and a snapshot."""
    append_rows(run.metrics, METRICS, [[s, s / 10, 10.0 ** -(s / 1000), 0.5, 0.1] for s in STEPS])
    timing = ["num_steps", "seconds", "steps_per_second"]
    append_rows(run.timing, timing, [[s, 1.0, 1234] for s in STEPS])
    families = ["span", "span_gpi", "boxes", "boxes_gpi", "boxes_planned"]
    families += ["goals", "goals_gpi", "goals_planned"]
    rows = [[s, *np.linspace(-0.2, s / 3000, len(families))] for s in [0, *STEPS]]
    append_rows(run.evaluation, ["num_steps", *families], rows)
    run.grid_snapshot.write_bytes(safetensors.numpy.save(snapshot(run.config(), walls, num_tasks)))


def snapshot(config: RunConfig, walls: bool = False, num_tasks: int = 8) -> dict[str, np.ndarray]:
    """The arrays of portrait.safetensors."""
    random, grid = np.random.default_rng(0), config.grid
    phi = random.normal(size=(grid.height * grid.width, config.agent.num_features))
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    free = np.ones((grid.height, grid.width), dtype=np.bool_)
    free[0, -1] = not walls
    rewards = random.normal(size=(num_tasks, config.agent.num_features)) @ phi.T
    return {"phi": phi, "free": free, "rewards": rewards, "values": 10 + rewards.cumsum(axis=1)}


def infer(
    run: RunDir, name: str = "boxes:7", file: str = "boxes-7", evaluated: bool = True
) -> Path:
    """The files that `visr infer` and `visr evaluate` write on the grid."""
    num_states = run.config().grid.height * run.config().grid.width
    task = Task(
        name=name, env="visr/Grid-v0", w=np.array([0.6, 0.8, 0.0]), method="least squares",
        r_squared=0.75, condition_number=2.0, standard_error=np.zeros(3), num_steps=num_states,
        num_rewarded=2, reward=np.arange(num_states, dtype=np.float64) % 3,
    )  # fmt: skip
    path = run.task(file)
    task.save(path)
    if evaluated:
        write_json(evaluation_of(path), evaluation(num_states) | {"task": name})
    return path


def evaluation(num_states: int) -> dict[str, Any]:
    return {
        "fraction_of_optimal": 0.625, "value": 3.5, "value_random": 1.0, "value_optimal": 5.0,
        "gamma": 0.95, "gpi": True, "policy": [s % 4 for s in range(num_states)],
        "values": [s / 2 for s in range(num_states)], "represented_reward": [0.25] * num_states,
    }  # fmt: skip


# --- an Atari game


def train_on_game(run: RunDir, concentration: float = 0.1) -> None:
    """Tables of three rows."""
    append_rows(run.metrics, METRICS, [[s, s / 10, 10.0, 0.5, concentration] for s in STEPS])
    append_rows(run.timing, ["num_steps", "seconds", "steps_per_second"], [[3000, 1.0, 567]])


def score_online(run: RunDir, returns: tuple[float, ...] = (300.0, 500.0, 700.0)) -> None:
    """online.csv."""
    columns = ["num_steps", "num_episodes", "mean_return", "r_squared", "num_rewarded"]
    rows = [[s, 2.0, x, 0.03, 40.0] for s, x in zip(STEPS, returns, strict=True)]
    append_rows(run.online, columns, rows)


def condition(name: str, mean: float, error: float | None = 10.0, **others: Any) -> dict[str, Any]:
    return {
        "name": name, "mean": mean, "standard_error": error, "human_normalised": 7.6, "at_75": False,
        "at_100": None, "r_squared": None, "scores": [mean - 20, mean, mean + 20],
        "num_steps": [600, 700, 800], **others,
    }  # fmt: skip


def phase(*conditions: dict[str, Any], **others: Any) -> dict[str, Any]:
    """The content of phase_two.json."""
    return {
        "format": 1, "env": GAME, "num_steps": 3000, "num_rewarded_steps": 31_234,
        "num_rewarded_episodes": 50, "num_seen": 1234, "num_trials": 3, "epsilon": 0.05,
        "clip_rewards": True, "random_score": 307.3, "human_score": 6951.6,
        "conditions": list(conditions), **others,
    }  # fmt: skip


def usual_phase() -> dict[str, Any]:
    return phase(
        condition("env-regression", 812.0, r_squared=0.031, at_75=True),
        condition("env-search", 320.0),
        condition("@0 (a new task every 40 steps)", 400.0),
        condition("random policy", 310.0),
    )


def infer_on_game(run: RunDir, name: str = "env-regression", file: str = "env-regression") -> None:
    """The file that `visr infer` writes."""
    Task(
        name=name, env=run.config().env, w=np.array([0.6, 0.8, 0.0]), method="least squares",
        r_squared=0.031, condition_number=2.0, standard_error=np.zeros(3), num_steps=31_234,
        num_rewarded=1234,
    ).save(run.task(file))  # fmt: skip


def game_run(path: Path) -> RunDir:
    """A game with every file that the report shows."""
    run = new_run(path, env=GAME, num_rewarded_envs=2, num_envs=34)
    train_on_game(run)
    score_online(run)
    write_json(run.phase_two, usual_phase())
    infer_on_game(run)
    return run


# --- reading a report


class Reader(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(page)
        self.sentences = " ".join(self.words.split())
        """The text with single spaces instead of line breaks."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def read(summary: dict[str, Any]) -> str:
    return Path(summary["page"]).read_text(encoding="utf-8")


def sentences(run: RunDir) -> str:
    """Write the report and return its text."""
    return Reader(read(report.write(run.path))).sentences


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def size_in_inches(path: Path, dpi: int) -> tuple[float, float]:
    """Width and height of a PNG file."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width / dpi, height / dpi


def png_chunks(content: bytes) -> list[bytes]:
    """The kinds of a PNG's chunks; each chunk's checksum is checked."""
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    kinds, at = [], 8
    while at < len(content):
        (length,) = struct.unpack(">I", content[at : at + 4])
        body, end = content[at + 4 : at + 8 + length], at + 8 + length
        assert struct.unpack(">I", content[end : end + 4])[0] == zlib.crc32(body)
        kinds.append(body[:4])
        at = end + 4
    return kinds
