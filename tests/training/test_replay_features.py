"""Runs with learned features of a step, and forward-backward: resume, infer, play, pack, export."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from visr import config as configuration
from visr import pretraining, sharing
from visr.config import RunConfig, presets
from visr.errors import Stopped
from visr.training.driver import Status

SMALL: dict[str, Any] = {
    "num_envs": 16,
    "unroll_length": 32,
    "num_updates": 16,
    "feature_updates": 4,
    "num_steps": 3_072,
    "warmup_steps": 512,
    "checkpoint_every": 1_024,
    "log_every": 512,
    "recorded_steps": 800,
}
ENVS = {
    "grid": {"env": "visr/Grid-v0", "height": 4, "width": 4, "num_features": 20},
    "cartpole": {"env": "CartPole-v1", "num_stages": 2},
    "breakout": {"env": "MinAtar/Breakout-v1"},
}


def config_of(name: str, kind: str) -> RunConfig:
    env = str(ENVS[name]["env"])
    if env.startswith("MinAtar"):
        pytest.importorskip("minatar")
    chosen = {"algorithm": "fb"} if kind == "fb" else {"transition_features": kind}
    base = presets.for_environment(env, str(chosen.get("algorithm", "replay")))
    return configuration.replace(base, **{**SMALL, **ENVS[name], **chosen})


def files(path: Path) -> dict[str, str]:
    """The content of all files but clocks and TensorBoard's, which hold times."""
    names = [p for p in sorted(path.rglob("*")) if p.is_file()]
    kept = [p for p in names if "tfevents" not in p.name and p.name not in ("timing.csv", "lock")]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in kept}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("grid", "laplacian"),
        ("grid", "fb"),
        ("cartpole", "phi"),
        ("cartpole", "self-predictive"),
        ("cartpole", "fb"),
        ("breakout", "inverse"),
    ],
)
def test_a_stopped_run_with_learned_features_resumes_to_the_same_bytes(
    name: str, kind: str, tmp_path: Path
):
    config = config_of(name, kind)
    pretraining.start(tmp_path / "whole", config)

    class Interrupt(Exception):
        pass

    def stop(status: Status) -> None:
        if status.num_steps >= 1_500:
            raise Interrupt

    with pytest.raises((Interrupt, Stopped)):
        pretraining.start(tmp_path / "stopped", config, stop)
    pretraining.resume(tmp_path / "stopped")
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


@pytest.mark.parametrize("kind", ["phi", "inverse", "fb"])
def test_every_verb_works_with_learned_features(kind: str, tmp_path: Path):
    run = visr.load(pretraining.start(tmp_path / "run", config_of("cartpole", kind)).path)
    task = run.infer("x0 > 0")
    assert task.method.startswith("mean of r B") == (kind == "fb")
    assert run.policy(task)(np.zeros(4, np.float32)) in (0, 1)
    assert run.evaluate_episodes(task, num_episodes=2).asked.mean >= 0
    assert len(run.play(task, num_episodes=1, max_steps=20)) == 1
    assert run.infer(goal="x0=0.5").w.shape == task.w.shape
    again = visr.load(str(sharing.pack(run, tmp_path / "model.safetensors").path))
    seen = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    assert (run.policy(task)(seen) == again.policy(task)(seen)).all()
    np.testing.assert_array_equal(run.features(seen), again.features(seen))


def test_the_task_of_a_change_is_found_from_both_states(tmp_path: Path):
    run = visr.load(pretraining.start(tmp_path / "run", config_of("cartpole", "projection")).path)

    def moves_right(before: np.ndarray, action: np.ndarray, after: np.ndarray) -> np.ndarray:
        return after[:, 0] - before[:, 0]

    found = run.compare(moves_right)
    assert found.validations["both states"].r_squared > found.validations["ridge"].r_squared


def test_pretrain_in_python_starts_from_the_settings_of_the_replay_learner(tmp_path: Path):
    run = visr.pretrain(
        "visr/Grid-v0", algorithm="fb", out=tmp_path / "run", **{**SMALL, "num_steps": 1_024}
    )
    assert run.config.agent.num_features == 128
    assert run.config.replay.transitions_per_update == 128


def test_a_goal_of_forward_backward_is_b_of_the_cell(tmp_path: Path):
    run = visr.load(pretraining.start(tmp_path / "run", config_of("grid", "fb")).path)
    task = run.infer(goal="1,2")
    b = run.features(np.array([6]))[0]
    np.testing.assert_allclose(task.w, b / np.linalg.norm(b), rtol=1e-4)
    assert run.evaluate(task).value_optimal > 0  # pyright: ignore
    onnx = pytest.importorskip("onnx")
    path = run.export(task, tmp_path / "policy.onnx")
    assert onnx.load(str(path)).graph.input[0].name == "observation"
