"""`visr reproduce beyond`: the additions to the paper, each on the same number of rewarded steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from visr import api
from visr.cli import main
from visr.errors import UserError
from visr.paper.reproduce import adaptation, plan
from visr.paper.reproduce import agents as lineup
from visr.paper.reproduce.ledger import Ledger
from visr.paper.reproduce.plan import Counts
from visr.paper.suite import read as suite_read
from visr.paper.suite import rows
from visr.report import read
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir

STEPS, TRIALS, FREE = 3_000, 2, 5_000


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("beyond") / "out"
    arguments = ["reproduce", "beyond", "--games", "breakout", "--only", "visr", "visr-plus"]
    arguments += ["--seeds", "0", "--num-steps", "5000", "--rewarded-steps", str(STEPS)]
    arguments += ["--free-steps", str(FREE)]
    assert main([*arguments, "--trials", str(TRIALS), "--out", str(out), "--jobs", "2"]) == 0
    return out


def run_of(out: Path, agent: str) -> RunDir:
    return RunDir.open(out / "runs" / agent / "MinAtar-Breakout-v1" / "seed-0")


@pytest.mark.parametrize("agent", ["visr", "visr-plus"])
def test_every_way_spends_the_steps_that_are_allowed_and_no_more(done: Path, agent: str):
    conditions = read_json(run_of(done, agent).adapted)["conditions"]
    assert tuple(c["name"] for c in conditions) == lineup.entry(agent).ways
    for condition in conditions:
        # a sweep of ten environments side by side may end a few steps late; rounds of tuning are whole
        assert STEPS - 160 <= condition["num_rewarded_steps"] <= STEPS + 10, condition
        assert len(condition["scores"]) == TRIALS
        is_free = condition["name"] == "relabelled"
        assert condition["num_free_steps"] == (FREE if is_free else 0)


@pytest.mark.parametrize(("agent", "way"), [("visr", "fine-tuned"), ("visr-plus", "relabelled")])
def test_fine_tuning_consults_no_task_that_other_rewarded_steps_paid_for(
    done: Path, agent: str, way: str
):
    run = run_of(done, agent)
    assert run.task_files()  # what the paper's phase left behind
    plan = read_json(RunDir(run.finetuned_run(way)).finetune)
    assert len(plan["saved"]) == 1


def test_inference_goes_on_until_a_reward_is_met(tmp_path: Path):
    fields = {"preset": "minatar", "num_steps": 2_720, "num_envs": 68, "recorded_steps": 0}
    run = api.pretrain("MinAtar/Freeway-v1", out=tmp_path / "run", **fields)
    task, spent = adaptation.infer(run, share=20, most=70, rounds=1)  # too few to cross any road
    assert (task.name, spent) == ("skill:0", 60)
    task, spent = adaptation.infer(run, share=20, most=20, rounds=1)
    assert (task.name, spent) == ("skill:0", 20)


def test_only_fine_tuning_changes_weights(done: Path):
    tuned = {p.name for p in run_of(done, "visr").finetuned_run("x").parent.iterdir()}
    assert tuned == {"fine-tuned", "from-scratch", "relabelled"}


def test_adapting_again_goes_on_from_what_is_there_to_the_same_scores(done: Path):
    run = run_of(done, "visr")
    before = read_json(run.adapted)
    tuned = RunDir(run.finetuned_run("fine-tuned"))
    checkpoints = [path.stat().st_mtime_ns for path in tuned.checkpoints()]
    run.adapted.unlink()
    adaptation.adapt(run, lineup.entry("visr").ways, Counts(STEPS, 0, TRIALS, FREE))
    assert read_json(run.adapted) == before
    assert [path.stat().st_mtime_ns for path in tuned.checkpoints()] == checkpoints


@pytest.fixture
def again(done: Path, tmp_path: Path) -> RunDir:
    """A copy of the run, whose adapting must be done again."""
    run = RunDir(shutil.copytree(run_of(done, "visr").path, tmp_path / "run"))
    run.adapted.unlink()
    return run


def adapt(run: RunDir) -> None:
    adaptation.adapt(run, lineup.entry("visr").ways, Counts(STEPS, 0, TRIALS, FREE))


def test_a_fine_tuning_killed_after_its_very_first_checkpoint_ends_the_same(
    done: Path, again: RunDir
):
    tuned = RunDir(again.finetuned_run("fine-tuned"))
    whole = tuned.checkpoints()[-1].read_bytes()
    tuned.checkpoints()[-1].unlink()
    assert int(tuned.checkpoints()[-1].stem) == 0
    adapt(again)
    assert tuned.checkpoints()[-1].read_bytes() == whole
    assert again.adapted.read_bytes() == run_of(done, "visr").adapted.read_bytes()


def test_somebody_else_s_fine_tuning_is_not_taken_for_the_plan_s(again: RunDir):
    tuned = again.finetuned_run("fine-tuned")
    shutil.rmtree(tuned)
    shutil.copytree(again.finetuned_run("from-scratch"), tuned)
    with pytest.raises(UserError, match=f"another task or with other settings; or remove {tuned}"):
        adapt(again)
    assert not again.adapted.exists()


def test_a_damaged_fine_tuning_says_how_to_have_it_made_anew(done: Path, again: RunDir):
    tuned = RunDir(again.finetuned_run("fine-tuned"))
    for path in tuned.checkpoints():
        path.write_bytes(b"cut")
    with pytest.raises(UserError, match=f"is whole.*; or remove {tuned.path}, and it is made anew"):
        adapt(again)
    shutil.rmtree(tuned.path)
    adapt(again)
    assert again.adapted.read_bytes() == run_of(done, "visr").adapted.read_bytes()


def test_a_result_that_was_moved_away_is_made_anew_by_the_same_command(done: Path):
    jobs = plan.make(
        "beyond",
        only=["visr"],
        chosen_games=["breakout"],
        seeds=[0],
        num_steps=5_000,
        counts=Counts(STEPS, 0, TRIALS, FREE),
    )
    run, ledger = run_of(done, "visr"), Ledger(done)
    kept = run.adapted.read_bytes()
    ledger.adopt(jobs)
    assert [ledger.state(job) for job in jobs.jobs] == ["done"] * 3
    run.adapted.unlink()
    try:
        ledger.adopt(jobs)
        assert [ledger.state(job) for job in jobs.jobs] == ["done", "done", "pending"]
    finally:
        run.adapted.write_bytes(kept)


def test_a_way_with_a_name_that_no_file_takes_is_reported_spelled_out(done: Path, tmp_path: Path):
    out = shutil.copytree(done, tmp_path / "out")
    file = run_of(out, "visr").adapted
    content = read_json(file)
    content["conditions"][0]["name"] = "\ud800"
    file.write_text(json.dumps(content))
    assert main(["report", str(out)]) == 0
    table = (out / "report" / "tables" / "minatar_games.md").read_text()
    assert "GPI VISR, \\ud800 @" in table


def test_returns_beyond_any_axis_are_damage_not_a_warning(tmp_path: Path):
    file = tmp_path / "online.csv"
    file.write_text("num_steps,num_episodes,mean_return\n1,1e308,1e308\n")
    with pytest.raises(UserError, match="its column num_episodes exceeds 1e\\+12"):
        read.online(file)


def test_the_paper_s_plans_know_nothing_of_it():
    for suite in ("grid", "minatar", "atari"):
        jobs = plan.make(suite, only=["visr"]).jobs
        assert all(job.phase != "adapt" and not job.ways for job in jobs)


def test_a_plan_made_before_keeps_its_hashes():
    jobs = plan.make("minatar", only=["visr"], chosen_games=["breakout"], seeds=[0]).jobs
    assert [job.config_hash for job in jobs] == ["d811f7a2ac45ae1c", "c14a18434a09de0b"]


def test_the_report_of_the_run_tells_of_them_too(done: Path, tmp_path: Path):
    assert main(["report", str(run_of(done, "visr").path), "--out", str(tmp_path / "report")]) == 0
    page = next((tmp_path / "report").glob("*.html")).read_text()
    assert "Otherwise spent" in page
    assert "<bdi>from scratch</bdi>" in page


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1, "env": "x", "conditions": []}']
)
def test_a_damaged_file_of_it_is_a_sentence(
    done: Path, tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
):
    run = RunDir(tmp_path / "run")
    shutil.copytree(run_of(done, "visr").path, run.path, ignore=shutil.ignore_patterns("finetuned"))
    run.adapted.write_text(text)
    assert main(["report", str(run.path)]) == 2
    said = capsys.readouterr().err
    assert (said.count("\n"), "adapted.json" in said) == (1, True), said


def test_the_report_has_a_line_for_every_way(done: Path, tmp_path: Path):
    assert main(["report", str(done), "--out", str(tmp_path / "report")]) == 0
    table = (tmp_path / "report" / "tables" / "minatar_games.md").read_text()
    for name in ("GPI VISR, rounds", "GPI VISR, fine-tuned", "VISR+, relabelled"):
        assert f"{name} @" in table
    assert "Fine-tuning's learner from scratch @" in table


def test_free_steps_are_counted_with_those_of_pre_training(done: Path):
    found, _ = suite_read.read(done)
    lines, _ = rows.gather(found)
    steps = {line.key.algorithm: line.key.num_steps for line in lines}
    assert steps["VISR+"] == 5_000
    assert steps["VISR+, relabelled"] == 5_000 + FREE


def test_the_number_of_free_steps_matters_only_to_who_learns_from_them():
    def hashes(free_steps: int) -> list[str]:
        counts = Counts(rewarded_episodes=0, free_steps=free_steps)
        jobs = plan.make("beyond", only=["visr"], seeds=[0], counts=counts).jobs[:3]
        return [job.config_hash for job in jobs]

    one, other = hashes(1_000), hashes(2_000)
    assert one[:2] == other[:2]
    assert one[2] != other[2]


def test_ways_that_were_named_are_the_only_ones():
    jobs = plan.make("beyond", only=["visr", "visr-rnd"], seeds=[0], ways=["relabelled"]).jobs[:5]
    assert [(job.agent, job.phase, job.ways) for job in jobs] == [
        ("visr", "train", ()),
        ("visr", "evaluate", ()),
        ("visr", "adapt", ("relabelled",)),
        ("visr-rnd", "train", ()),
        ("visr-rnd", "evaluate", ()),
    ]
    with pytest.raises(UserError, match="'rounds'"):
        plan.make("minatar", only=["visr"], ways=["rounds"])
    with pytest.raises(UserError, match="'rounds'"):
        plan.make("beyond", only=["visr-plus"], ways=["rounds"])


def test_all_together_with_more_features_is_an_agent_too():
    assert lineup.entry("visr-plus-d16").fields == {
        **lineup.entry("visr-plus").fields,
        "num_features": 16,
    }
