"""The command line on the grid: results on stdout, everything else on stderr, exit codes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from visr import config as configuration
from visr.api import pretrain
from visr.cli import main
from visr.commands import options
from visr.config import presets
from visr.storage.files import read_json
from visr.storage.run_dir import RunDir, slug

VERBS = (
    "pretrain",
    "infer",
    "evaluate",
    "play",
    "task",
    "export",
    "report",
    "explore",
    "bench",
    "doctor",
    "list",
)


class Answer(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The JSON object on stdout; nothing else may be printed."""
        assert (self.code, self.err) == (0, "")
        assert self.out.count("\n") == 1
        content = json.loads(self.out, parse_constant=pytest.fail)
        assert isinstance(content, dict)
        return content


def visr(*arguments: str | Path) -> Answer:
    """Run the command line in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(a) for a in arguments])
    return Answer(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Answer]:
    path = tmp_path_factory.mktemp("cli") / "run"
    arguments = ("--preset", "smoke", "--num-steps", "5120", "--seed", "3", "--out", path)
    return path, visr("pretrain", "visr/Grid-v0", *arguments)


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A finished run that a test may write into."""
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


# ------------------------------------------------------------------ pretrain


def test_pretrain_prints_the_directory_of_the_run_and_its_scores(pretrained: tuple[Path, Answer]):
    path, answer = pretrained
    assert (answer.code, answer.err) == (0, f"Next: visr infer {path} --reward boxes:7\n")
    assert str(path) in answer.out  # in one piece, however long it is
    for words in ("5,120", "phi(s').w", "span", "boxes", "goals"):
        assert words in answer.out


def test_pretrain_writes_the_configured_run(pretrained: tuple[Path, Answer]):
    run = RunDir.open(pretrained[0])
    wanted = configuration.replace(presets.get("smoke"), num_steps=5120, seed=3)
    assert run.config() == wanted
    assert [p.stem for p in run.checkpoints()] == ["000000000000", "000000005120"]
    assert all(file.stat().st_size for file in (run.metrics, run.evaluation, run.grid_snapshot))
    assert list(run.tensorboard.iterdir())
    assert not list(run.path.rglob("*.partial"))


def test_pretrain_json_is_one_object_and_resume_repeats_it(run: Path):
    answer = visr("pretrain", "--resume", run, "--json").json
    assert answer["run"] == str(run)
    assert answer["num_steps"] == 20_480
    assert isinstance(answer["num_steps"], int)
    assert {"psi_loss", "intrinsic_reward", "num_updates"} <= answer.keys()
    fractions = answer["fraction_of_optimal"]
    assert {"span", "span_gpi", "boxes", "boxes_gpi", "goals", "goals_gpi"} <= fractions.keys()
    assert all(value <= 1 for value in fractions.values())


def test_a_run_that_diverged_prints_null_and_not_nan(run: Path):
    lines = (run / "metrics.csv").read_text().splitlines()
    place = lines[0].split(",").index("psi_loss")
    last = lines[-1].split(",")
    last[place] = "nan"
    (run / "metrics.csv").write_text("\n".join([*lines[:-1], ",".join(last)]) + "\n")
    assert visr("pretrain", "--resume", run, "--json").json["psi_loss"] is None


def test_defaults_are_the_environments_at_any_position_of_its_id(
    monkeypatch: pytest.MonkeyPatch,
):
    from visr import pretraining
    from visr.errors import UserError

    seen = []

    def start(_path: Any, config: configuration.RunConfig, *_others: Any) -> None:
        seen.append(config)
        raise UserError("enough")

    monkeypatch.setattr(pretraining, "start", start)
    visr("pretrain", "Taxi-v4", "--seed", "5", "--out", "x")
    visr("pretrain", "--seed", "5", "--out", "x", "Taxi-v4")
    visr("pretrain", "--seed", "5", "--out", "x")
    visr("pretrain", "Taxi-v4", "--batch-size", "8", "--out", "x")
    visr("pretrain", "Taxi-v4", "--algorithm", "visr", "--out", "x")
    taxi = configuration.replace(presets.get("replay-vectors"), env="Taxi-v4", seed=5)
    grid = configuration.replace(presets.get("replay-grid"), seed=5)
    papers = configuration.replace(presets.get("classic"), env="Taxi-v4")
    smaller = configuration.replace(papers, batch_size=8)
    assert seen == [taxi, taxi, grid, smaller, papers]


def test_other_environments_train_and_reject_expressions_of_the_grid(tmp_path: Path):
    sizes = ("--preset", "smoke", "--num-steps", "1280", "--recorded-steps", "200")
    answer = visr("pretrain", "FrozenLake-v1", *sizes, "--out", tmp_path / "lake")
    hint = f'Next: visr infer {tmp_path / "lake"} --reward "state == 0" --name first\n'
    assert (answer.code, answer.err) == (0, hint)
    assert "1,280" in answer.out
    assert "fraction of optimal" not in answer.out
    answer = visr("infer", tmp_path / "lake", "--reward", "row")
    assert answer.code == 2
    assert "'row' is unknown: known are pi, state, before_state, action" in answer.err
    assert visr("infer", tmp_path / "lake", "--reward", "state == 5", "--json").json["w"]


# --------------------------------------------------------- infer and evaluate


def rewards_of_every_kind(tmp_path: Path) -> dict[str, str]:
    """reward -> name of its task"""
    row, col = np.mgrid[:10, :10]
    np.save(tmp_path / "heat.npy", np.hypot(row - 3, col - 4))
    np.savetxt(tmp_path / "slope.csv", row + 2.0 * col, delimiter=",")
    return {
        "boxes:7": "boxes-7",
        "goal:2,3": "goal-2-3",
        "row > 5 and col < 3": "row-5-and-col-3",
        str(tmp_path / "heat.npy"): "heat",
        str(tmp_path / "slope.csv"): "slope",
    }


def test_every_kind_of_reward_becomes_a_task_that_can_be_evaluated(run: Path, tmp_path: Path):
    for reward, name in rewards_of_every_kind(tmp_path).items():
        answer = visr("infer", run, "--reward", reward)
        assert answer.code == 0
        assert str(run / "tasks" / f"{name}.json") in answer.out
        assert f"visr evaluate {run} {name}\n" in answer.err
        assert "R^2" in answer.out
        evaluated = visr("evaluate", run, name)
        assert (evaluated.code, evaluated.err) == (0, "")
        assert reward in evaluated.out
        assert "discount" in evaluated.out
        assert "0.95" in evaluated.out
    assert len(RunDir(run).task_files()) == 5


def test_infer_json_is_the_task(run: Path):
    answer = visr("infer", run, "--reward", "goal:2,3", "--json").json
    file = run / "tasks" / "goal-2-3.json"
    assert answer["file"] == str(file)
    assert answer == read_json(file) | {"file": str(file)}
    assert np.linalg.norm(answer["w"]) == pytest.approx(1)
    assert answer["reward"][23] == sum(answer["reward"]) == 1
    assert (answer["num_steps"], answer["num_rewarded"]) == (100, 1)
    assert {"r_squared", "condition_number", "standard_error", "method"} <= answer.keys()


def test_the_options_of_infer_reach_the_regression(run: Path, tmp_path: Path):
    options = ("--centred", "True", "--ridge", "0.5", "--name", "My goal", "--json")
    answer = visr("infer", run, "--reward", "goal:2,3", *options).json
    assert answer["method"] == "centred ridge regression (0.5)"
    assert answer["file"] == str(run / "tasks" / "my-goal.json")
    elsewhere = tmp_path / "elsewhere" / "task.json"
    answer = visr("infer", run, "--reward", "goal:2,3", "--out", elsewhere)
    assert f"visr evaluate {run} {elsewhere}\n" in answer.err
    assert visr("evaluate", run, elsewhere).code == 0


def test_two_rewards_with_the_same_words_get_different_files(run: Path):
    for reward in ("row > 5", "row < 5", "row > 5", "row >= 5"):
        assert visr("infer", run, "--reward", reward).code == 0
    names = {p.stem: json.loads(p.read_text())["name"] for p in RunDir(run).task_files()}
    assert names == {"row-5": "row > 5", "row-5-2": "row < 5", "row-5-3": "row >= 5"}


def test_replacing_a_task_removes_its_evaluation(run: Path):
    visr("infer", run, "--reward", "goal:2,3", "--name", "it")
    visr("evaluate", run, "it")
    assert (run / "tasks" / "it.evaluation.json").exists()
    visr("infer", run, "--reward", "goal:7,7", "--name", "it")
    assert not (run / "tasks" / "it.evaluation.json").exists()


def test_evaluate_json_is_the_saved_evaluation(run: Path):
    visr("infer", run, "--reward", "boxes:7")
    answer = visr("evaluate", run, "boxes-7", "--gamma", "0.9", "--policy", "own", "--json").json
    assert answer == read_json(run / "tasks" / "boxes-7.evaluation.json")
    assert (answer["gamma"], answer["gpi"], answer["task"]) == (0.9, False, "boxes:7")
    bounds = answer["value_optimal"] - answer["value_random"]
    fraction = (answer["value"] - answer["value_random"]) / bounds
    assert answer["fraction_of_optimal"] == pytest.approx(fraction)
    assert set(answer["policy"]) <= {0, 1, 2, 3}
    assert len(answer["policy"]) == len(answer["values"]) == 100


def test_options_of_phase_two_are_refused_for_an_agent_that_infers_no_task(tmp_path: Path):
    fields: dict[str, Any] = {"num_envs": 2, "unroll_length": 5, "batch_size": 1}
    pretrain("CartPole-v1", out=tmp_path / "nsq", algorithm="nsq", num_steps=20, **fields)
    for option in ("--rewarded-steps", "--rewarded-episodes"):
        answer = visr("evaluate", tmp_path / "nsq", option, "3")
        assert answer.code == 2
        assert f"{option} does not apply: a nsq agent infers no task" in answer.err


def test_evaluate_without_a_task_scores_three_families(run: Path):
    answer = visr("evaluate", run, "--json").json
    assert answer.pop("gamma") == 0.95
    assert answer.pop("num_steps") == 20_480
    kinds = {f + k for f in ("boxes", "goals") for k in ("", "_gpi", "_planned")}
    assert answer.keys() == kinds | {"span", "span_gpi"}
    assert all(value <= 1 for value in answer.values())
    last = RunDir(run).last_row(RunDir(run).evaluation)
    assert answer == {name: last[name] for name in answer}  # the end of training said the same
    shown = visr("evaluate", run)
    assert (shown.code, shown.err) == (0, "")
    assert f"{answer['boxes_planned']:.3f}" in shown.out


# ---------------------------------------------------- report, bench and list


def test_report_prints_the_path_of_its_page_or_one_object(run: Path, tmp_path: Path):
    visr("infer", run, "--reward", "boxes:7")
    visr("evaluate", run, "boxes-7")
    answer = visr("report", run)
    assert answer == (0, f"{run / 'report' / 'index.html'}\n", "")
    assert (run / "report" / "index.html").read_text().lstrip().startswith("<!DOCTYPE html>")
    summary = visr("report", run, "--out", tmp_path / "page", "--json").json
    assert summary["page"] == str(tmp_path / "page" / "index.html")
    assert (summary["run"], summary["num_steps"]) == (str(run), 20_480)
    assert [task["name"] for task in summary["tasks"]] == ["boxes:7"]
    assert {"span", "boxes", "goals"} <= summary["fraction_of_optimal"].keys()


@pytest.mark.parametrize("what", ["envs", "presets", "rewards"])
def test_list_prints_the_same_entries_as_text_and_as_json(what: str):
    plain, listed = visr("list", what), visr("list", what, "--json").json
    assert (plain.code, plain.err) == (0, "")
    assert list(listed) == [what]
    entries = listed[what].items()
    assert len(plain.out.splitlines()) == len(entries)
    for line, (name, text) in zip(plain.out.splitlines(), entries, strict=True):
        assert line.startswith(name)
        assert line.endswith(text)


# ------------------------------------------------------- help and exit codes


def test_help_names_every_command_and_is_the_answer_to_no_command():
    assert visr() == visr("--help") == visr("-h")
    assert visr().code == 0
    assert all(f"\n  {verb} " in visr().out for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_command_names_its_options(verb: str):
    answer = visr(verb, "--help-all" if verb == "pretrain" else "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"usage: visr {verb}" in answer.out
    options = importlib.import_module(f"visr.commands.{verb}").Options
    names = {f.name for f in dataclasses.fields(options)} - set(configuration.SECTIONS)
    names |= {*configuration.field_names(), "cluster"} if verb == "pretrain" else set()
    names -= {"where"}  # what --cluster says
    positional = {"run": "RUN", "what": ""}
    positional |= {"env": "ENV"} if verb in ("pretrain", "doctor") else {}
    positional |= {"task": {"names": "..."}, "evaluate": {"task": "TASK"}}.get(verb, {})
    positional |= {"task": "TASK", "out": "FILE.onnx"} if verb == "export" else {}
    positional |= {"run": "DIR"} if verb == "report" else {}
    for name in names - set(positional):
        assert re.search(rf"--{name.replace('_', '-')}(?![\w-])", answer.out), name
    for name in names & set(positional):
        assert positional[name] in answer.out, name


def test_help_shows_the_defaults_of_the_preset():
    page = " ".join(visr("pretrain", "--preset", "smoke", "--help-all").out.split())
    assert "(default: 20480)" in page


def test_version():
    from visr import __version__

    assert visr("--version") == (0, f"visr {__version__}\n", "")


def test_ctrl_c_outside_training_is_130(monkeypatch: pytest.MonkeyPatch):
    from visr.commands import list as listing

    def interrupt(_: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(listing, "run", interrupt)
    assert visr("list", "envs") == (130, "", "visr: Interrupted.\n")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("boxes:7", "boxes-7"),
        ("row/2 > col/3", "row-2-col-3"),
        ("/some/where/Heat Map.npy", "heat-map"),
        ("../../x.csv", "x"),
        ("../../etc/passwd", "etc-passwd"),
        ("目标", "task"),
        ("x" * 100, "x" * 60),
    ],
)
def test_names_of_tasks_become_plain_file_names(text: str, name: str):
    assert slug(text) == name


def shell(
    arguments: list[str], stdout: int, **environment: str
) -> subprocess.CompletedProcess[str]:
    variables = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"} | environment
    return subprocess.run(
        [sys.executable, "-m", "visr.cli", *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        check=False,
    )


@pytest.mark.parametrize("buffering", [{}, {"PYTHONUNBUFFERED": "1"}], ids=["buffered", "not"])
@pytest.mark.parametrize("arguments", [["list", "rewards"], ["list", "--help"]], ids=" ".join)
def test_a_closed_pipe_behind_stdout_prints_nothing(
    arguments: list[str], buffering: dict[str, str]
):
    reader, writer = os.pipe()
    os.close(reader)
    with contextlib.closing(os.fdopen(writer, "wb")):
        answer = shell(arguments, writer, **buffering)
    assert (answer.returncode, answer.stderr) == (1, "")


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", ">&- 2>&-"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_bad_input_exits_with_2_even_if_stderr_cannot_be_written(where: str, tmp_path: Path):
    command = f"{sys.executable} -m visr task list nowhere {where}"
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk_behind_stdout_is_one_sentence():
    with open("/dev/full", "wb") as full:
        answer = shell(["list", "rewards"], full.fileno())
    assert answer.returncode == 2
    assert answer.stderr == (
        "visr: Cannot access the output: No space left on device; choose another place.\n"
    )


def test_errors_are_the_same_without_utf_8():
    sentences = {
        shell(["list", "envz"], subprocess.PIPE, PYTHONIOENCODING=encoding).stderr
        for encoding in ("utf-8", "ascii")
    }
    assert sentences == {visr("list", "envz").err}
    assert len(sentences.pop().splitlines()) == 1


def test_help_leaves_out_that_flags_may_be_left_out():
    answer = visr("infer", "--help")
    assert answer.code == 0
    assert "--goal STR" in answer.out
    assert "None" not in answer.out
    framed = options._without_none(
        "│ --a {None}|STR  Text. (default: │\n│               None)           │\n"
    )
    assert framed == "│ --a STR         Text.           │\n"


def test_a_verb_without_its_choice_names_the_choices():
    answer = visr("task")
    assert answer.code == 2
    assert "needs one of list, mix, compare" in answer.err
