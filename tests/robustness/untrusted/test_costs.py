"""A stranger's run that asks for years or for all memory is not resumed before the user accepts the cost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import visr
from tests.conftest import tiny
from visr import config as configuration
from visr.cli import main
from visr.config import FinetuneConfig, RunConfig, cost, presets
from visr.errors import UserError
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir

GREEDY: dict[str, dict[str, Any]] = {
    "num_steps": {"num_steps": 2**63 - 1},
    "hidden_sizes": {"hidden_sizes": (8,) * 100_000},
    "gpi_samples": {"gpi_samples": 10**6},
    "num_processes": {
        "num_processes": 100,
        "num_actor_groups": 100,
        "num_envs": 100,
        "batch_size": 100,
    },
    "evaluate_every": {"num_steps": 10**10, "evaluate_every": 1, "height": 50, "width": 50},
    "checkpoint_every": {"num_steps": 10**13 // 5, "checkpoint_every": 1},
    "height": {"height": 1_000, "width": 1_000, "hidden_sizes": (8,)},
}


def refused(config: RunConfig) -> str:
    estimate = cost.of_training(config)
    with pytest.raises(UserError) as caught:
        cost.require_consent("runs/a", config, estimate, is_accepted=False)
    return str(caught.value)


@pytest.mark.parametrize("name", GREEDY)
def test_a_resumed_run_names_its_memory_and_time_and_asks(
    name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = shutil.copytree(trained, tmp_path / "run")
    config = RunDir(run).config()
    content = configuration.to_dict(configuration.replace(config, **GREEDY[name]))
    (run / "config.json").write_text(json.dumps({"format": 1, "config": content}))
    before = sorted(path.name for path in run.rglob("*"))
    assert main(["pretrain", "--resume", str(run)]) == 2
    said = capsys.readouterr().err
    assert "of memory and" in said
    assert "of one core" in said
    assert "add --accept-cost" in said
    assert sorted(path.name for path in run.rglob("*")) == before
    with pytest.raises(UserError, match="accept_cost="):
        visr.resume(run)


def test_an_accepted_cost_goes_on(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cost, "MOST_BYTES", 1.0)
    run = shutil.copytree(trained, tmp_path / "run")
    assert main(["pretrain", "--resume", str(run)]) == 2
    assert main(["pretrain", "--resume", str(run), "--accept-cost"]) == 0
    assert visr.resume(run, accept_cost=True).num_steps


def test_the_name_of_a_checkpoint_does_not_make_a_training_look_short(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """It is damaged, so that training would go on from the one before."""
    run = RunDir(shutil.copytree(trained, tmp_path / "run"))
    content = configuration.to_dict(configuration.replace(run.config(), num_steps=2**62))
    run.config_file.write_text(json.dumps({"format": 1, "config": content}))
    shutil.copy(run.checkpoints()[-1], run.checkpoint(2**62 - 1))
    assert main(["pretrain", "--resume", str(run.path)]) == 2
    assert "years of one core" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["num_steps", "updates_per_round", "replay_steps", "free_updates"])
def test_a_resumed_finetuning_asks_as_well(
    name: str, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run, tuned = shutil.copytree(trained, tmp_path / "run"), tmp_path / "tuned"
    main(["infer", str(run), "--reward", "row"])
    words = ["finetune", str(run), "--task", "row", "--num-steps", "64", "--out", str(tuned)]
    assert main(words) == 0
    file = tuned / "finetune.json"
    content = read_json(file)
    content["settings"][name] = 2**62
    if name == "free_updates":
        content["settings"]["free_steps"] = 10
    file.write_text(json.dumps(content))
    capsys.readouterr()
    assert main(["finetune", "--resume", str(tuned)]) == 2
    said = capsys.readouterr().err
    assert ("most memory for replay_steps" if name == "replay_steps" else "years of one") in said


@pytest.mark.parametrize("verb", ["pretrain --preset smoke", "finetune run --task x"])
def test_the_flag_without_a_resumed_run_is_refused(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert main([*verb.split(), "--accept-cost"]) == 2
    assert "--accept-cost belongs to --resume" in capsys.readouterr().err


@pytest.mark.parametrize("name", presets.PRESETS)
@pytest.mark.parametrize("env", ["visr/Grid-v0", "ALE/Pong-v5"])
def test_no_preset_asks_for_consent(name: str, env: str):
    config = configuration.replace(presets.get(name), env=env)
    estimate = cost.of_training(config)
    cost.require_consent("runs/a", config, estimate, is_accepted=False)
    assert cost.of_finetuning(config, FinetuneConfig()).seconds < cost.MOST_SECONDS


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"hidden_sizes": (15_000, 15_000, 100)}, "hidden_sizes"),
        ({"batch_size": 10**5, "unroll_length": 1_000}, "batch_size"),
        ({"preset": "replay-grid", "buffer_steps": 10**12}, "buffer_steps"),
        ({"preset": "replay-grid", "tasks_per_update": 10**6}, "tasks_per_update"),
    ],
)
def test_the_setting_that_takes_most_memory_is_named(fields: dict[str, Any], named: str):
    config = presets.get(fields.pop("preset", "smoke"))
    assert f"most memory for {named}" in refused(configuration.replace(config, **fields))


def test_layers_that_sum_to_gigabytes_are_refused_before_anything_is_built():
    with pytest.raises(UserError, match=r"100 layers in all, would take"):
        tiny(hidden_sizes=(5_000,) * 100)


@pytest.mark.parametrize(
    "fields",
    [
        {"psi_width": 10**6},
        {"psi_width": 10**5, "num_features": 10_000},
        {"library_size": 10**6},
        {"library_size": 10**5, "psi_width": 10**4},
        {"library_size": 10**5, "library_steps": 1},
        {"library_size": 10**5, "num_features": 10_000},
        {"smooth_states": True, "num_features": 10_000, "height": 1_000, "width": 1_000},
    ],
    ids=str,
)
def test_a_replay_learner_that_readers_could_not_hold_is_refused(fields: dict[str, Any]):
    with pytest.raises(UserError, match="numbers at once"):
        configuration.replace(presets.get("replay-grid"), **fields)


def test_a_run_does_not_start_thousands_of_threads():
    with pytest.raises(UserError, match="num_threads = 1025 is too large"):
        tiny(num_threads=1_025)
