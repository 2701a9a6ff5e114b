"""`visr reproduce beyond`: other uses of the rewarded steps, each with the same number of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from visr import api
from visr.cli import main
from visr.errors import UserError
from visr.paper.reproduce import agents, phases, plan
from visr.paper.reproduce.ledger import Ledger
from visr.paper.reproduce.plan import Counts
from visr.paper.reproduce.runner import instructions
from visr.paper.suite import read as suite_read
from visr.paper.suite.entries import collect
from visr.report import read
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir

STEPS, TRIALS, FREE = 3_000, 2, 5_000
PLAN = plan.make(
    "beyond",
    only=["visr", "visr-plus"],
    chosen_games=["breakout"],
    seeds=[0],
    num_steps=5_000,
    counts=Counts(STEPS, 3, TRIALS, FREE, draws=1),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished jobs of two agents, run in this process."""
    out = tmp_path_factory.mktemp("beyond") / "out"
    ledger = Ledger(out)
    ledger.add(PLAN)
    for job in PLAN.jobs:
        phases.run(json.loads(json.dumps(instructions(job, out))))
        ledger.change(job, state="done")
    return out


def run_of(out: Path, agent: str) -> RunDir:
    return RunDir.open(out / "runs" / agent / "MinAtar-Breakout-v1" / "seed-0")


@pytest.mark.parametrize("agent", ["visr", "visr-plus"])
def test_every_way_uses_the_allowed_rewarded_steps(done: Path, agent: str):
    conditions = read_json(run_of(done, agent).adapted)["conditions"]
    assert tuple(c["name"] for c in conditions) == agents.named(agent).ways
    for condition in conditions:
        # inference with ten environments may end a few steps late; fine-tuning takes whole rounds
        assert STEPS - 160 <= condition["num_rewarded_steps"] <= STEPS + 10, condition
        assert len(condition["scores"]) == TRIALS
        is_free = condition["name"] == "relabelled"
        assert condition["num_free_steps"] == (FREE if is_free else 0)


@pytest.mark.parametrize(("agent", "way"), [("visr", "fine-tuned"), ("visr-plus", "relabelled")])
def test_fine_tuning_uses_no_task_of_the_paper_s_phase(done: Path, agent: str, way: str):
    run = run_of(done, agent)
    assert run.task_files()  # saved by the paper's phase
    plan = read_json(RunDir(run.finetuned_run(way)).finetune)
    assert len(plan["saved"]) == 1


def test_inference_repeats_until_a_reward_is_seen(tmp_path: Path):
    fields = {"preset": "minatar", "num_steps": 2_720, "num_envs": 68, "recorded_steps": 0}
    run = api.pretrain("MinAtar/Freeway-v1", out=tmp_path / "run", **fields)
    task, spent = phases.infer(run, share=20, most=70)  # too few steps to cross a road
    assert (task.name, spent) == ("skill:0", 60)
    task, spent = phases.infer(run, share=20, most=20)
    assert (task.name, spent) == ("skill:0", 20)


def test_every_way_has_its_own_fine_tuned_run(done: Path):
    tuned = {p.name for p in run_of(done, "visr").finetuned_run("x").parent.iterdir()}
    assert tuned == {"fine-tuned", "from-scratch", "relabelled"}


def test_adapting_again_reuses_finished_fine_tunings(done: Path):
    run = run_of(done, "visr")
    before = read_json(run.adapted)
    tuned = RunDir(run.finetuned_run("fine-tuned"))
    checkpoints = [path.stat().st_mtime_ns for path in tuned.checkpoints()]
    run.adapted.unlink()
    phases.adapt(run, agents.named("visr").ways, Counts(STEPS, 0, TRIALS, FREE))
    assert read_json(run.adapted) == before
    assert [path.stat().st_mtime_ns for path in tuned.checkpoints()] == checkpoints


@pytest.fixture
def again(done: Path, tmp_path: Path) -> RunDir:
    """A copy of the run without its adapted.json."""
    run = RunDir(shutil.copytree(run_of(done, "visr").path, tmp_path / "run"))
    run.adapted.unlink()
    return run


def adapt(run: RunDir) -> None:
    phases.adapt(run, agents.named("visr").ways, Counts(STEPS, 0, TRIALS, FREE))


def test_a_fine_tuning_killed_after_its_first_checkpoint_ends_the_same(done: Path, again: RunDir):
    tuned = RunDir(again.finetuned_run("fine-tuned"))
    whole = tuned.checkpoints()[-1].read_bytes()
    tuned.checkpoints()[-1].unlink()
    assert int(tuned.checkpoints()[-1].stem) == 0
    adapt(again)
    assert tuned.checkpoints()[-1].read_bytes() == whole
    assert again.adapted.read_bytes() == run_of(done, "visr").adapted.read_bytes()


def test_a_fine_tuning_of_another_task_is_refused(again: RunDir):
    tuned = again.finetuned_run("fine-tuned")
    shutil.rmtree(tuned)
    shutil.copytree(again.finetuned_run("from-scratch"), tuned)
    with pytest.raises(
        UserError,
        match=f"another task or with other settings; or remove {tuned} to fine",
    ):
        adapt(again)
    assert not again.adapted.exists()


def test_a_damaged_fine_tuning_says_how_to_repeat_it(done: Path, again: RunDir):
    tuned = RunDir(again.finetuned_run("fine-tuned"))
    for path in tuned.checkpoints():
        path.write_bytes(b"cut")
    with pytest.raises(UserError, match=f"is whole.*; or remove {tuned.path} to fine-tune again"):
        adapt(again)
    shutil.rmtree(tuned.path)
    adapt(again)
    assert again.adapted.read_bytes() == run_of(done, "visr").adapted.read_bytes()


def test_a_missing_result_makes_its_job_pending(done: Path):
    run, ledger = run_of(done, "visr"), Ledger(done)
    kept = run.adapted.read_bytes()
    ledger.add(PLAN)
    assert [ledger.state(job) for job in PLAN.jobs] == ["done"] * 6
    run.adapted.unlink()
    try:
        ledger.add(PLAN)
        assert [ledger.state(job) for job in PLAN.jobs][:3] == ["done", "done", "pending"]
    finally:
        run.adapted.write_bytes(kept)


def test_a_lone_surrogate_in_the_name_of_a_way_is_escaped(done: Path, tmp_path: Path):
    out = shutil.copytree(done, tmp_path / "out")
    file = run_of(out, "visr").adapted
    content = read_json(file)
    content["conditions"][0]["name"] = "\ud800"
    file.write_text(json.dumps(content))
    assert main(["report", str(out)]) == 0
    table = (out / "report" / "tables" / "minatar_games.md").read_text()
    assert "GPI VISR, \\\\ud800 @" in table  # Markdown shows one backslash


def test_a_too_large_return_in_online_csv_is_reported_as_damage(tmp_path: Path):
    file = tmp_path / "online.csv"
    file.write_text("num_steps,num_episodes,mean_return\n1,1,1e308\n")
    with pytest.raises(UserError, match="its column mean_return exceeds 1e\\+12"):
        read.online(file)


def test_the_report_of_the_run_shows_every_way(done: Path, tmp_path: Path):
    assert main(["report", str(run_of(done, "visr").path), "--out", str(tmp_path / "report")]) == 0
    page = next((tmp_path / "report").glob("*.html")).read_text()
    assert "<bdi>from scratch</bdi>" in page


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "env": "x", "conditions": []}']
)
def test_a_damaged_adapted_json_is_reported_in_one_sentence(
    done: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(tmp_path / "run")
    shutil.copytree(run_of(done, "visr").path, run.path, ignore=shutil.ignore_patterns("finetuned"))
    run.adapted.write_text(text)
    assert main(["report", str(run.path)]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "adapted.json" in said) == (1, True), said


def test_the_report_of_the_plan_has_a_line_for_every_way(done: Path, tmp_path: Path):
    assert main(["report", str(done), "--out", str(tmp_path / "report")]) == 0
    table = (tmp_path / "report" / "tables" / "minatar_games.md").read_text()
    for name in ("GPI VISR, fine-tuned", "VISR+, relabelled"):
        assert f"{name} @" in table
    assert "Fine-tuning's learner from scratch @" in table


def test_free_steps_are_added_to_the_steps_of_pre_training(done: Path):
    found, _ = suite_read.read(done)
    lines, _ = collect(found)
    steps = {line.key.algorithm: line.key.num_steps for line in lines}
    assert steps["VISR+"] == 5_000
    assert steps["VISR+, relabelled"] == 5_000 + FREE
