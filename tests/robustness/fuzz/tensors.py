"""Files of tensors: headers, the JSON inside their metadata, and shapes that do not fit."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from tests.conftest import tiny
from tests.robustness.fuzz import noise
from tests.robustness.fuzz.files import TASK, Reader
from visr import config as configuration
from visr.inference.recording import Recording
from visr.storage import packed_models
from visr.storage.files import read_tensors
from visr.storage.records.grid import GridSnapshot
from visr.storage.run_dir import FORMAT, RunDir
from visr.training import checkpoint

_CONFIG = tiny(height=2, width=2, num_features=2)
_CARD = {
    "format": 1, "name": "a", "about": "", "num_steps": 1, "seed": 0, "precision": "float32",
    "scores": {"fraction_of_optimal": {"goals": 0.5}}, "recipe": ["visr pretrain"],
    "config": configuration.to_dict(_CONFIG),
}  # fmt: skip
_ZEROS = {"phi.0.weight": np.zeros((2, 3), np.float32), "psi.0.bias": np.zeros(4, np.float32)}
_SNAPSHOT = {
    "phi": np.zeros((4, 2)),
    "free": np.ones((2, 2), bool),
    "rewards": np.zeros((3, 4)),
    "values": np.zeros((3, 4)),
}
_STEPS = {
    "phi": np.zeros((5, 2), np.float32),
    "episode": np.zeros(5, np.int64),
    "before": np.zeros((5, 3), np.float32),
    "action": np.zeros(5, np.int64),
    "reached": np.zeros((5, 3), np.float32),
}


def readers() -> list[Reader]:
    """Packed models, checkpoints, recorded steps, snapshots and pieces of a replay buffer."""
    counts = json.dumps({"format": FORMAT, "num_steps": 5, "num_updates": 1})
    tables = json.dumps({"metrics.csv": "0" * 64})
    card = {"card": json.dumps(_CARD), "tasks": json.dumps({"goal": TASK})}
    return [
        Reader("model.safetensors", 3, _made(card, _ZEROS), _load_model),
        Reader(
            "checkpoint", 3, _made({"visr": counts, "tables": tables}, _ZEROS), _load_checkpoint
        ),
        Reader("recorded", 2, _made({"names": '["x0", "x1", "x2"]'}, _STEPS), _load_recorded),
        Reader("portrait", 1, _made({}, _SNAPSHOT), _load_snapshot),
        Reader("replay piece", 1, _made({}, _STEPS), _load_piece),
    ]


def _made(words: dict[str, str], arrays: dict[str, np.ndarray]) -> Callable[[random.Random], bytes]:
    """A file whose metadata, header, tensors or bytes were changed."""
    valid = safetensors.numpy.save(arrays, metadata=words)

    def make(random: random.Random) -> bytes:
        length = int.from_bytes(valid[:8], "little")
        header, body = json.loads(valid[8 : 8 + length]), valid[8 + length :]
        kind = random.randrange(6)
        if kind < 3 and words:  # JSON within JSON
            name = random.choice(sorted(words))
            inner = noise.document(random, json.loads(words[name])).decode(errors="replace")
            header["__metadata__"][name] = inner
        elif kind < 5:
            header = noise.changed(random, header)
        text = json.dumps(header).encode()
        if random.randrange(20) == 0:
            text = noise.document(random, header)
        size = len(text) if random.randrange(10) else random.choice((0, 1, len(text) + 1, 2**63))
        data = size.to_bytes(8, "little") + text + body
        return noise.bitten(random, data) if random.randrange(4) == 0 else data

    return make


def _written(path: Path, content: bytes) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    return path


def _load_model(place: Path, content: bytes) -> None:
    model = packed_models.open_model(_written(place / "model.safetensors", content))
    assert model.output.parts[0] == "runs"
    assert all(np.isfinite(weights.numpy()).all() for weights in model.weights().values())


def _load_checkpoint(place: Path, content: bytes) -> None:
    run = RunDir(place / "tensors")
    run.path.mkdir(exist_ok=True)
    path = _written(run.checkpoint(5), content)
    run.changed_tables(path)
    counts: dict[str, Any] = checkpoint.load(path)[1]
    assert all(isinstance(count, int) for count in counts.values())


def _load_recorded(place: Path, content: bytes) -> None:
    recorded = Recording.load(_written(place / "recorded.safetensors", content)).in_order()
    assert len(recorded.phi) == len(recorded.action)


def _load_snapshot(place: Path, content: bytes) -> None:
    GridSnapshot.load(_written(place / "portrait.safetensors", content), _CONFIG)


def _load_piece(place: Path, content: bytes) -> None:
    read_tensors(_written(place / "piece.safetensors", content), "restore it")
