"""SimPLe as a run: its iterations, a resumed run, its policy, its report and its errors."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from visr import config as configuration
from visr import pretraining
from visr.cli import main
from visr.config import RunConfig, presets
from visr.errors import Stopped, UserError
from visr.paper.baselines import play
from visr.paper.baselines.simple.agent import Simple
from visr.paper.reproduce import agents
from visr.storage.records.imagined import Imagined
from visr.storage.run_dir import RunDir
from visr.storage.tables import read_rows
from visr.training.driver import Status

BREAKOUT = "MinAtar/Breakout-v1"


def tiny(**fields: Any) -> RunConfig:
    small = {"num_steps": 300, "log_every": 100, "checkpoint_every": 100, "device": "cpu"}
    base = presets.for_environment(BREAKOUT, "simple")
    return configuration.replace(base, env=BREAKOUT, **{**small, **fields})


def contents(run: Path) -> dict[str, bytes]:
    """The files of a run that have no clock in them."""
    files = [*run.glob("checkpoints/*"), run / "metrics.csv", run / "online.csv"]
    files.append(run / "imagined.safetensors")
    return {str(path.relative_to(run)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretraining.start(tmp_path_factory.mktemp("simple") / "run", tiny()).path


def test_defaults_are_15_iterations_of_100k_steps_and_a_row_for_each():
    config = presets.for_environment(BREAKOUT, "simple")
    assert (config.training.num_steps, config.agent.gamma) == (100_000, 0.99)
    assert config.training.log_every <= 100_000 // 15


def test_a_row_has_all_four_counters(whole: Path):
    rows = read_rows(RunDir(whole).metrics)
    # 3 iterations; 3 updates of the model, of which the first iteration has 5 times as many;
    # a rollout of 8 environments and 50 steps, learnt from in 4 epochs of one batch
    assert [row["num_steps"] for row in rows] == [100, 200, 300]
    assert [row["model_updates"] for row in rows] == [15, 18, 21]
    assert [row["simulated_steps"] for row in rows] == [400, 800, 1_200]
    assert [row["num_updates"] for row in rows] == [4, 8, 12]
    assert all(0 <= row["changed_accuracy"] <= 1 for row in rows)


def test_progress_tells_all_four_counters(tmp_path: Path):
    notes: list[str] = []
    pretraining.start(
        tmp_path / "run", tiny(num_steps=100), lambda status: notes.append(status.note)
    )
    assert notes[0] == (
        "iteration 1 of 1, real steps: 100 real steps, 0 model updates, 0 simulated steps, "
        "0 policy updates"
    )
    assert any("policy: 100 real steps, 15 model updates, 400 simulated steps" in n for n in notes)


@pytest.mark.parametrize("phase", ["model", "policy"])
def test_a_run_stopped_inside_an_iteration_resumes_to_the_same_bytes(
    whole: Path, tmp_path: Path, phase: str
):
    def stop(status: Status) -> None:
        if f"iteration 3 of 3, {phase}" in status.note:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped, match="saved as of step 200"):
        pretraining.start(tmp_path / "run", tiny(), stop)
    cut = RunDir(tmp_path / "run")
    assert cut.replay_pieces()
    pretraining.resume(cut.path)
    assert contents(cut.path) == contents(whole)
    assert not cut.replay_pieces()


def test_a_run_killed_after_its_last_checkpoint_lacks_nothing(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The real steps are gone by then, so what the model imagines must be there already."""

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(pretraining, "_record", kill)
    with pytest.raises(KeyboardInterrupt):
        pretraining.start(tmp_path / "run", tiny())
    monkeypatch.undo()
    pretraining.resume(tmp_path / "run")
    assert contents(tmp_path / "run") == contents(whole)
    assert (tmp_path / "run/imagined.safetensors").read_bytes() == (
        whole / "imagined.safetensors"
    ).read_bytes()


def test_the_seed_determines_the_run(whole: Path, tmp_path: Path):
    other = pretraining.start(tmp_path / "run", tiny(seed=1)).path
    mine, theirs = contents(whole), contents(other)
    assert all(mine[name] != theirs[name] for name in mine)


def test_rows_that_are_rarer_than_iterations_show_the_last_one(tmp_path: Path):
    run = pretraining.start(tmp_path / "run", tiny(log_every=1_000))
    (row,) = read_rows(run.metrics)
    assert (row["num_steps"], row["model_updates"]) == (300, 21)


def test_the_policy_of_a_finished_run_is_scored(whole: Path):
    content = play.evaluate(RunDir(whole), num_trials=2).to_dict()
    assert [c["name"] for c in content["conditions"]] == ["as trained", "random policy"]
    assert content["num_steps"] == 300


def test_real_steps_are_counted_and_their_end_is_held_out():
    trainer = Simple(tiny())
    rounds = trainer.rounds()
    next(rounds)
    assert len(trainer.steps.candidates()) == 100
    assert len(trainer.steps.candidates(held_out=True)) == 5
    assert trainer.steps.candidates(held_out=True).min() > trainer.steps.candidates(False).max()
    rounds.close()
    trainer.close()


def test_simulated_episodes_start_in_real_states():
    trainer = Simple(tiny())
    rounds = trainer.rounds()
    next(rounds)
    frames = {x.tobytes() for x in trainer.steps.buffer.storage.observation[:120].numpy()}
    env = trainer.policy.ppo.get_env()
    assert env is not None
    env.seed(0)
    assert {x.tobytes() for x in np.asarray(env.reset())} <= frames
    rounds.close()
    trainer.close()


def test_the_report_shows_the_model(whole: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", str(whole)]) == 0
    page = (whole / "report" / "index.html").read_text()
    assert "The world model" in page
    assert "SimPLe, trained on" in page
    assert (whole / "report" / "imagined.png").exists()
    assert (whole / "report" / "model_error.png").exists()


def test_a_damaged_record_of_the_model_is_refused(whole: Path, tmp_path: Path):
    good = Imagined.load(whole / "imagined.safetensors")
    assert good.real.shape == (3, 51, 4, 10, 10)
    path = tmp_path / "imagined.safetensors"
    path.write_bytes((whole / "imagined.safetensors").read_bytes()[:-100])
    with pytest.raises(UserError, match="is damaged"):
        Imagined.load(path)


def test_the_command_line_trains_and_evaluates(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = str(tmp_path / "run")
    words = ["--algorithm", "simple", "--num-steps", "100", "--out", run, "--json"]
    assert main(["pretrain", BREAKOUT, *words]) == 0
    assert main(["evaluate", run, "--episodes", "2", "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert [len(condition["scores"]) for condition in said["conditions"]] == [2, 2]


@pytest.mark.parametrize(
    ("env", "flags", "words"),
    [
        ("CartPole-v1", [], "predicts images, and CartPole-v1 has none"),
        ("visr/Grid-v0", [], "no reward"),
        (BREAKOUT, ["--cluster", "local"], "trains in one process"),
    ],
)
def test_what_simple_cannot_do_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], env: str, flags: list[str], words: str
):
    run = ["--algorithm", "simple", "--out", str(tmp_path / "run")]
    assert main(["pretrain", env, *run, *flags]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_an_unfinished_run_cannot_be_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = RunDir.create(tmp_path / "run", tiny())
    assert main(["evaluate", str(run.path)]) == 2
    assert "has not finished" in capsys.readouterr().err


def test_atari_screens_are_stacks_of_frames():
    config = presets.for_environment("ALE/Pong-v5", "simple")
    trainer = Simple(configuration.replace(config, env="ALE/Pong-v5", num_steps=100, device="cpu"))
    next(trainer.rounds())
    assert tuple(trainer.steps.buffer.storage.observation.shape[1:]) == (1, 84, 84)
    env = trainer.policy.ppo.get_env()
    assert env is not None
    env.seed(0)
    assert np.asarray(env.reset()).shape == (8, 4, 84, 84)
    trainer.close()


def test_a_plan_accepts_simple():
    fields = agents.named("simple-100k").fields
    assert (fields["algorithm"], fields["num_steps"]) == ("simple", 100_000)
