"""`visr reproduce beyond`: the additions to the paper, each on the same number of rewarded steps."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from visr.cli import main
from visr.disk.files import read_json
from visr.reproduce import adapting, lineup, plan
from visr.reproduce.plan import Counts
from visr.run_dir import RunDir

STEPS, TRIALS = 3_000, 2


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("beyond") / "out"
    arguments = ["reproduce", "beyond", "--games", "breakout", "--only", "visr", "visr-plus"]
    arguments += ["--seeds", "0", "--num-steps", "5000", "--rewarded-steps", str(STEPS)]
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


def test_only_fine_tuning_changes_weights(done: Path):
    tuned = {p.name for p in run_of(done, "visr").finetuned_run("x").parent.iterdir()}
    assert tuned == {"fine-tuned", "from-scratch"}


def test_adapting_again_goes_on_from_what_is_there_to_the_same_scores(done: Path):
    run = run_of(done, "visr")
    before = read_json(run.adapted)
    tuned = RunDir(run.finetuned_run("fine-tuned"))
    checkpoints = [path.stat().st_mtime_ns for path in tuned.checkpoints()]
    run.adapted.unlink()
    adapting.adapt(run, lineup.entry("visr").ways, Counts(STEPS, 0, TRIALS))
    assert read_json(run.adapted) == before
    assert [path.stat().st_mtime_ns for path in tuned.checkpoints()] == checkpoints


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
    for name in ("GPI VISR, rounds", "GPI VISR, fine-tuned", "VISR+, rounds and fine-tuned"):
        assert f"{name} @" in table
    assert "Fine-tuning's learner from scratch @" in table
