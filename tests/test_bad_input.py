"""What a user can get wrong: exit code 2, one sentence that helps, and nothing touched."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch

from visr.cli import main
from visr.run_dir import RunDir, read_json
from visr.training import checkpoint

# ------------------------------------------- what may be wrong with files: given(tmp_path), before


def no_checkpoint(tmp: Path) -> None:
    shutil.rmtree(tmp / "run" / "checkpoints")


def cut_checkpoint(tmp: Path) -> None:
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def garbage_checkpoint(tmp: Path) -> None:
    for file in RunDir(tmp / "run").checkpoints():
        file.write_bytes(b"\x80\x04garbage" * 1000)


def newer_checkpoint(tmp: Path) -> None:
    newest = checkpoint.newest(RunDir(tmp / "run"))
    tensors, counts = checkpoint.load(newest)
    metadata = {"visr": json.dumps(counts | {"format": 2})}
    newest.write_bytes(safetensors.torch.save(tensors, metadata=metadata))


def config_with(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def given(tmp: Path) -> None:
        content = read_json(
            tmp / "run" / "config.json"
        )  # without its checksum, as editors are told
        change(content)
        (tmp / "run" / "config.json").write_text(json.dumps(content))

    return given


def cut_config(tmp: Path) -> None:
    text = (tmp / "run" / "config.json").read_text()
    (tmp / "run" / "config.json").write_text(text[: len(text) // 2])


def binary_metrics(tmp: Path) -> None:
    (tmp / "run" / "metrics.csv").write_bytes(b"num_steps,psi_loss\n\xff\xfe\x00,1\n")


def array(values: Any) -> Callable[[Path], None]:
    return lambda tmp: np.save(tmp / "reward.npy", values, allow_pickle=True)


def text(name: str, content: str) -> Callable[[Path], None]:
    def given(tmp: Path) -> None:
        (tmp / name).write_text(content)

    return given


def task_with(**changes: Any) -> Callable[[Path], None]:
    def given(tmp: Path) -> None:
        content: dict[str, Any] = {
            "format": 1, "name": "goal", "env": "visr/Grid-v0", "w": [1.0, 0, 0, 0, 0],
            "method": "by hand", "r_squared": 0.5, "condition_number": None,
            "standard_error": [0.0] * 5, "num_steps": 100, "num_rewarded": 1,
            "reward": [1.0] + [0.0] * 99,
        }  # fmt: skip
        (tmp / "task.json").write_text(json.dumps(content | changes))

    return given


def cut_task(tmp: Path) -> None:
    task_with()(tmp)
    whole = (tmp / "task.json").read_text()
    (tmp / "task.json").write_text(whole[: len(whole) // 2])


def empty_directory(tmp: Path) -> None:
    (tmp / "empty").mkdir()


# --------------------------------------------------------------------------------- the table


class Case(NamedTuple):
    id: str
    line: str
    """{run} is a finished run, {out} a place where nothing is yet, {tmp} where `given` writes and we are."""
    names: str
    """The offending value, as the sentence shows it."""
    offers: str
    """The way out."""
    given: Callable[[Path], None] | None = None


TRAIN = "pretrain --preset smoke --out {out}"
ASK = "infer {run} --reward"
LONG = "a" * 300


def counts(*fields: str) -> list[Case]:
    """Fields that must be at least 1: neither zero nor negative."""
    return [
        Case(f"{field}={value}", f"{TRAIN} --{field} {value}", f"{name} = {value}", "at least 1")
        for field in fields
        for value in (0, -1)
        for name in [field.replace("-", "_")]
    ]


CASES = [
    # ---- words
    Case("unknown command", "frobnicate", "`frobnicate`", "visr --help"),
    Case("misspelt command", "pretrian", "`pretrian`", "visr pretrain"),
    Case("unknown flag of no command", "--frob", "`--frob`", "visr --help"),
    Case("unknown environment", f"{TRAIN} Nonsense-v0", "'Nonsense-v0'", "visr list envs"),
    Case("misspelt environment", f"{TRAIN} visr/Gird-v0", "'visr/Gird-v0'", "'visr/Grid-v0'"),
    Case("continuous actions", f"{TRAIN} Pendulum-v1", "Box(-2.0, 2.0", "--discretise 3"),
    Case("environment to import", f"{TRAIN} no_such_one:X-v0", "'no_such_one:X-v0'", "imported"),
    Case("unknown preset", "pretrain --preset enormous", "'enormous'", "smoke"),
    Case("misspelt preset", "pretrain --preset smoek", "'smoek'", "did you mean smoke"),
    Case("preset without a name", "pretrain --out {out} --preset", "--preset", "--help"),
    Case("unknown field", f"{TRAIN} --wormholes 3", "--wormholes", "visr pretrain --help"),
    Case("misspelt field", f"{TRAIN} --num-step 3", "--num-step,", "did you mean --num-steps?"),
    Case("two environments", f"{TRAIN} visr/Grid-v0 Taxi-v4", "Taxi-v4", "--help"),
    Case("bad choice", f"{TRAIN} --features leraned", "'leraned'", "'learned', 'random'"),
    Case("bad layout", f"{TRAIN} --layout maze", "'maze'", "four-rooms"),
    Case("unknown list", "list planets", "'planets'", "'presets'"),
    Case("list of nothing", "list", "{envs,presets,rewards,models}", "visr list --help"),
    Case("unknown bench", "bench pinball", "'pinball'", "'grid'"),
    # ---- numbers
    *counts("num-steps", "num-envs", "unroll-length", "batch-size", "checkpoint-every"),
    *counts("log-every", "evaluate-every", "num-processes", "n-step", "target-period"),
    Case("d=1", f"{TRAIN} --num-features 1", "num_features = 1", "at least 2"),
    Case("d=-5", f"{TRAIN} --num-features -5", "num_features = -5", "at least 2"),
    Case("negative seed", f"{TRAIN} --seed -1", "seed = -1", "at least 0"),
    Case("steps in words", f"{TRAIN} --num-steps many", "'many'", "visr pretrain --help"),
    Case("half a step", f"{TRAIN} --num-steps 0.5", "'0.5'", "visr pretrain --help"),
    Case("endless digits", f"{TRAIN} --num-steps {'9' * 400}", "num_steps = 99", "at most"),
    Case("too many worlds", f"{TRAIN} --num-envs 10000000", "num_envs = 10000000", "at most"),
    Case("too wide a layer", f"{TRAIN} --hidden-sizes 10000000", "(10000000,)", "from 1 to"),
    Case("gamma nan", f"{TRAIN} --gamma nan", "gamma = nan", "finite"),
    Case("gamma inf", f"{TRAIN} --gamma inf", "gamma = inf", "finite"),
    Case("gamma 1", f"{TRAIN} --gamma 1", "gamma = 1", "0.99"),
    Case("gamma -1", f"{TRAIN} --gamma -1", "gamma = -1.0", "between 0 and 1"),
    Case("epsilon 2", f"{TRAIN} --epsilon 2", "epsilon = 2.0", "between 0 and 1"),
    Case("epsilon nan", f"{TRAIN} --epsilon nan", "epsilon = nan", "finite"),
    Case("rate 0", f"{TRAIN} --psi-learning-rate 0", "psi_learning_rate = 0.0", "greater than 0"),
    Case("rate inf", f"{TRAIN} --phi-learning-rate inf", "phi_learning_rate = inf", "finite"),
    Case("rate in words", f"{TRAIN} --phi-learning-rate fast", "'fast'", "pretrain --help"),
    Case("kappa -1", f"{TRAIN} --gpi-kappa -1", "gpi_kappa = -1.0", "at least 0"),
    Case("ridge nan", f"{TRAIN} --ridge nan", "ridge = nan", "finite"),
    Case("no hidden layer", f"{TRAIN} --hidden-sizes", "hidden_sizes = ()", "one or more"),
    Case("hidden layer of 0", f"{TRAIN} --hidden-sizes 0", "hidden_sizes = (0,)", "from 1"),
    Case("height 0", f"{TRAIN} --height 0", "height = 0", "at least 1"),
    Case("one cell", f"{TRAIN} --height 1 --width 1", "1 x 1", "larger height or width"),
    Case("too many cells", f"{TRAIN} --height 9999 --width 9999", "9999 x 9999", "at most"),
    Case("small rooms", f"{TRAIN} --layout four-rooms --height 4", "4 x 10", "at least 5"),
    Case("idle groups", f"{TRAIN} --num-actor-groups 64", "num_actor_groups = 64", "at most"),
    Case("no such cluster", f"{TRAIN} --cluster moon", "--cluster moon", "local, auto"),
    Case("nobody there", f"{TRAIN} --cluster 127.0.0.1:9", "'127.0.0.1:9'", "--cluster local"),
    Case("cluster settings alone", f"{TRAIN} --max-staleness 4", "max_staleness = 4", "--cluster"),
    Case("learners that cannot share", f"{TRAIN} --num-learners 5", "num_learners = 5", "divisor"),
    Case("weights too seldom", f"{TRAIN} --publish-every 4", "publish_every = 4", "--max-stale"),
    Case("no time", f"{TRAIN} --unroll-timeout 0", "unroll_timeout = 0.0", "greater than 0"),
    Case("crowded actors", f"{TRAIN} --num-envs 99 --num-actor-groups 1 --max-staleness 2",
         "max_staleness = 2", "--num-actor-groups"),
    Case("absent GPUs", f"{TRAIN} --cluster local --gpus-per-learner 9", "9 GPUs", "--cluster auto"),
    Case("simulated grid", "bench grid --simulate", "--simulate", "visr bench cluster"),
    Case("bench for 0 seconds", "bench --seconds 0", "seconds = 0.0", "greater than 0"),
    Case("bench for ever", "bench --seconds inf", "seconds = inf", "finite"),
    Case("bench for nan", "bench --seconds nan", "seconds = nan", "finite"),
    Case("bench of no preset", "bench --preset enormous", "'enormous'", "smoke"),
    # ---- where to write
    Case("run exists", "pretrain --preset smoke --out {run}", "{run}", "--resume {run}"),
    Case("out is a file", "pretrain --preset smoke --out {tmp}/f", "{tmp}/f", "another --out",
         text("f", "mine")),
    Case("out under a file", "pretrain --preset smoke --out {tmp}/f/run", "{tmp}/f/run",
         "choose another place", text("f", "mine")),
    Case("out in /proc", "pretrain --preset smoke --out /proc/run", "/proc/run", "another place"),
    Case("out is nothing", "pretrain --preset smoke --out ''", ". exists already", "another --out",
         text("f", "mine")),
    Case("out too long", f"pretrain --preset smoke --out {{tmp}}/{LONG}", LONG, "another place"),
    Case("task onto a directory", f"{ASK} row --out {{run}}", "{run}", "another place"),
    Case("task onto .", f"{ASK} row --out .", "Is a directory", "another place"),
    Case("task onto nothing", f"{ASK} row --out ''", "Is a directory", "another place"),
    Case("task under a file", f"{ASK} row --out {{tmp}}/f/t.json", "{tmp}/f/t.json",
         "another place", text("f", "mine")),
    Case("report under a file", "report {run} --out {tmp}/f", "{tmp}/f", "another place",
         text("f", "mine")),
    # ---- resuming
    Case("resume nothing", "pretrain --resume {out}", "{out}", "visr pretrain"),
    Case("resume empty", "pretrain --resume {tmp}/empty", "{tmp}/empty", "run's own directory",
         empty_directory),
    Case("resume a file", "pretrain --resume {tmp}/f", "{tmp}/f", "visr pretrain",
         text("f", "mine")),
    Case("resume a name too long", f"pretrain --resume {LONG}", LONG, "check its name"),
    Case("resume without checkpoint", "pretrain --resume {run}", "{run} has no checkpoint",
         "start over", no_checkpoint),
    Case("resume cut checkpoint", "pretrain --resume {run}", "000000020480.safetensors",
         "restore one from a copy", cut_checkpoint),
    Case("resume garbage", "pretrain --resume {run}", "000000020480.safetensors",
         "restore one from a copy", garbage_checkpoint),
    Case("resume newer checkpoint", "pretrain --resume {run}", "000000020480.safetensors",
         "use the one that wrote it", newer_checkpoint),
    Case("resume cut config", "pretrain --resume {run}", "{run}/config.json", "restore it",
         cut_config),
    Case("resume newer config", "pretrain --resume {run}", "format 2", "version of visr that wrote",
         config_with(lambda c: c.update(format=2))),
    Case("resume unknown field", "pretrain --resume {run}", "wormholes", "train anew",
         config_with(lambda c: c["config"]["agent"].update(wormholes=3))),
    Case("resume unknown section", "pretrain --resume {run}", "wormholes", "train anew",
         config_with(lambda c: c["config"].update(wormholes={}))),
    Case("resume misfit field", "pretrain --resume {run}", "hidden_sizes = 5", "whole numbers",
         config_with(lambda c: c["config"]["agent"].update(hidden_sizes=5))),
    Case("resume stranger's module", "pretrain --resume {run}", "'antigravity:X-v0'", "VISR_TRUST",
         config_with(lambda c: c["config"].update(env="antigravity:X-v0"))),
    Case("resume binary metrics", "pretrain --resume {run}", "{run}/metrics.csv", "restore it",
         binary_metrics),
    Case("resume with other steps", "pretrain --resume {run} --num-steps 40960",
         "num_steps = 40960", "start a new one"),
    Case("resume with other gamma", "pretrain --resume {run} --gamma 0.5", "gamma = 0.5",
         "start a new one"),
    Case("resume with other world", "pretrain --resume {run} Taxi-v4", "env = 'Taxi-v4'",
         "start a new one"),
    Case("resume elsewhere", "pretrain --resume {run} --out {out}", "--out", "leave out"),
    Case("resume with a preset", "pretrain --resume {run} --preset smoke", "--preset", "leave out"),
    # ---- runs
    *(
        case
        for verb, rest in (("infer", " --reward row"), ("evaluate", ""), ("report", ""))
        for case in (
            Case(f"{verb} nothing", f"{verb} {{out}}{rest}", "{out}", "visr pretrain"),
            Case(f"{verb} empty", f"{verb} {{tmp}}/empty{rest}", "{tmp}/empty",
                 "run's own directory", empty_directory),
            Case(f"{verb} cut config", f"{verb} {{run}}{rest}", "{run}/config.json", "restore it",
                 cut_config),
            Case(f"{verb} newer config", f"{verb} {{run}}{rest}", "format 2", "that wrote it",
                 config_with(lambda c: c.update(format=2))),
        )
    ),
    *(
        case
        for verb, rest in (("infer", " --reward row"), ("evaluate", ""))
        for case in (
            Case(f"{verb} without checkpoint", f"{verb} {{run}}{rest}", "{run} has no checkpoint",
                 "start over", no_checkpoint),
            Case(f"{verb} cut checkpoint", f"{verb} {{run}}{rest}", "000000020480.safetensors",
                 "restore one from a copy", cut_checkpoint),
            Case(f"{verb} newer checkpoint", f"{verb} {{run}}{rest}", "000000020480.safetensors",
                 "use the one that wrote it", newer_checkpoint),
            Case(f"{verb} with another d", f"{verb} {{run}}{rest}", "does not fit", "config.json",
                 config_with(lambda c: c["config"]["agent"].update(num_features=7))),
        )
    ),
    Case("report binary metrics", "report {run}", "{run}/metrics.csv", "restore it",
         binary_metrics),
    # ---- rewards
    Case("no reward", "infer {run}", "--reward", "visr infer --help"),
    Case("no run", "infer --reward row", "RUN", "visr infer --help"),
    Case("reward of wrong shape", f"{ASK} reward.npy", "(3, 3)", "(10, 10)",
         array(np.eye(3))),
    Case("reward with nan", f"{ASK} reward.npy", "nan at row 0, column 1", "finite",
         array(np.where(np.eye(10) == 1, 1.0, np.nan))),
    Case("reward with inf", f"{ASK} reward.npy", "inf at row 0, column 0", "finite",
         array(np.where(np.eye(10) == 1, np.inf, 0))),
    Case("reward of zeros", f"{ASK} reward.npy", "'reward.npy' is zero everywhere",
         "another value", array(np.zeros((10, 10)))),
    Case("constant reward", f"{ASK} reward.npy", "'reward.npy' is 2 in every cell",
         "let it differ", array(np.full(100, 2.0))),
    Case("pickled reward", f"{ASK} reward.npy", "'reward.npy'", "save plain numbers",
         array(np.array([{}] * 100))),
    Case("reward of words", f"{ASK} r.csv", "'r.csv'", "float", text("r.csv", "a,b\n")),
    Case("missing reward", f"{ASK} reward.npy", "'reward.npy'", "does not exist"),
    Case("goal outside", f"{ASK} goal:10,0", "row 10, column 0", "from 0 to 9"),
    Case("goal without a place", f"{ASK} goal", "'goal'", "goal:ROW,COL"),
    Case("boxes in words", f"{ASK} boxes:many", "'boxes:many'", "boxes:SEED"),
    Case("half an expression", f"{ASK} 'row >'", "'row >'", "at its end"),
    Case("unknown name", f"{ASK} 'speed > 3'", "'speed'", "known are"),
    Case("call to import", f"{ASK} \"__import__('os')\"", "'__import__'", "known are"),
    Case("attribute", f"{ASK} row.real", "'row.real'", "not allowed"),
    Case("division by zero", f"{ASK} 1/(row-row)", "'1/(row-row)'", "a division by zero"),
    Case("empty expression", f"{ASK} ''", "empty", "row + col"),
    Case("negative ridge", f"{ASK} row --ridge -1", "ridge = -1.0", "at least 0"),
    Case("ridge in words", f"{ASK} row --ridge much", "'much'", "visr infer --help"),
    # ---- tasks
    Case("unknown task", "evaluate {run} dinner", "'dinner'", "visr infer"),
    Case("task beside the run", "evaluate {run} ../config", "'../config'", "visr infer"),
    Case("task too long", f"evaluate {{run}} {LONG}", LONG, "choose another"),
    Case("cut task", "evaluate {run} {tmp}/task.json", "{tmp}/task.json", "make it anew", cut_task),
    Case("newer task", "evaluate {run} {tmp}/task.json", "format 2", "infer it anew",
         task_with(format=2)),
    Case("task of another d", "evaluate {run} {tmp}/task.json", "2 features", "with this run",
         task_with(w=[0.6, 0.8], standard_error=[0, 0])),
    Case("task of another grid", "evaluate {run} {tmp}/task.json", "4 states", "with this run",
         task_with(reward=[0.0, 1, 2, 3])),
    Case("task of endless steps", "evaluate {run} {tmp}/task.json", "{tmp}/task.json", "visr infer",
         task_with(num_steps=float("inf"))),
    Case("task of endless reward", "evaluate {run} {tmp}/task.json", "{tmp}/task.json",
         "visr infer", task_with(reward=[1e308] * 99 + [0.0])),
    Case("task without reward", "evaluate {run} {tmp}/task.json", "`goal`", "infer it anew",
         task_with(reward=None)),
    Case("task that is a list", "evaluate {run} {tmp}/task.json", "{tmp}/task.json", "visr infer",
         text("task.json", "[]")),
    Case("evaluate at gamma 1", "evaluate {run} --gamma 1", "gamma = 1.0", "less than 1"),
    Case("evaluate at gamma -1", "evaluate {run} --gamma -1", "gamma = -1.0", "at least 0"),
    Case("evaluate at gamma nan", "evaluate {run} --gamma nan", "gamma = nan", "less than 1"),
]  # fmt: skip


def snapshot(path: Path) -> dict[str, bytes | None]:
    """Every directory and every byte below a place."""
    return {
        str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")
    }


def one_sentence(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("visr: ")
    assert err.endswith("\n")
    assert len(err.splitlines()) == 1, err
    assert err.rstrip("\n").endswith((".", "?"))
    assert "Traceback" not in err
    return err


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths, such as the default runs/, end where the snapshot sees them."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in CASES])
def test_bad_input_is_one_helpful_sentence_and_touches_nothing(
    case: Case, trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    places = {"run": tmp_path / "run", "out": tmp_path / "out", "tmp": tmp_path}

    def filled(template: str) -> str:
        for name, path in places.items():
            template = template.replace(f"{{{name}}}", str(path))
        return template

    if "{run}" in case.line:
        shutil.copytree(trained, places["run"])
    if case.given is not None:
        case.given(tmp_path)
    before = snapshot(tmp_path)
    code = main(shlex.split(filled(case.line)))
    sentence = one_sentence(capsys)
    assert code == 2
    assert filled(case.names) in sentence
    assert filled(case.offers) in sentence
    assert snapshot(tmp_path) == before


# ------------------------------------------------------------- disks that refuse, for real


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Mounts a file system of so many KiB; skips where nobody may mount."""
    place = tmp_path / "disk"

    def mount(kibibytes: int) -> Path:
        place.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", str(place)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            pytest.skip("there is no `mount` here: real full disks go untested")
        if done.returncode:
            pytest.skip(f"mounting is not permitted: real full disks go untested ({done.stderr!r})")
        return place

    yield mount
    if os.path.ismount(place):
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(place: Path) -> None:
    """Leave no byte free."""
    with open(place / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017


def test_pretraining_onto_a_full_disk_leaves_nothing_there(
    small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
):
    disk = small_disk(64)
    fill(disk)
    assert main(["pretrain", "--preset", "smoke", "--out", str(disk / "run")]) == 2
    assert f"Cannot write {disk / 'run'}" in (sentence := one_sentence(capsys))
    assert "No space left on device; free some space or choose another place." in sentence
    assert [p.name for p in disk.iterdir()] == ["filler"]


# config.json fits; then not the first checkpoint; then not TensorBoard's file; then not the next one
@pytest.mark.parametrize("kibibytes", [64, 276, 400])
def test_a_disk_that_fills_up_while_training_is_one_sentence(
    kibibytes: int, small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
):
    run = RunDir(small_disk(kibibytes) / "run")
    assert main(["pretrain", "--preset", "smoke", "--out", str(run.path)]) == 2
    assert "No space left on device" in one_sentence(capsys)
    assert not list(run.path.rglob("*.partial"))
    for file in run.checkpoints():
        checkpoint.load(file)  # whole


def test_a_run_that_met_a_full_disk_goes_on_elsewhere_to_the_end_it_would_have_had(
    trained: Path,
    small_disk: Callable[[int], Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    run = RunDir(small_disk(800) / "run")
    shutil.copytree(trained, run.path, ignore=shutil.ignore_patterns("*020480*", "tensorboard"))
    earlier = checkpoint.newest(run).read_bytes()
    assert main(["pretrain", "--resume", str(run.path)]) == 2
    sentence = one_sentence(capsys)
    assert f"Cannot write {run.checkpoint(20_480)}: No space left on device" in sentence
    assert checkpoint.newest(run).read_bytes() == earlier
    assert len(list((run.path / "checkpoints").iterdir())) == 1

    shutil.copytree(run.path, tmp_path / "moved")
    assert main(["pretrain", "--resume", str(tmp_path / "moved"), "--json"]) == 0
    moved, whole = RunDir(tmp_path / "moved"), RunDir(trained)
    (a, _), (b, _) = (checkpoint.load(checkpoint.newest(r)) for r in (moved, whole))
    assert all(torch.equal(a[name], b[name]) for name in b)
    assert moved.metrics.read_bytes() == whole.metrics.read_bytes()
    assert moved.evaluation.read_bytes() == whole.evaluation.read_bytes()


@pytest.fixture
def asked(
    trained: Path, small_disk: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> Path:
    """A run on a small disk, with a task and its evaluation."""
    run = small_disk(2048) / "run"
    shutil.copytree(trained, run)
    for line in ("infer {} --reward goal:2,3 --name it", "evaluate {} it"):
        assert main(line.format(run).split()) == 0
    capsys.readouterr()
    return run


AGAIN = {
    "infer": "infer {} --reward goal:7,7 --name it",
    "evaluate": "evaluate {} it --gamma 0.5",
    "report": "report {}",
}


@pytest.mark.parametrize("verb", AGAIN)
def test_a_full_disk_leaves_earlier_tasks_and_evaluations_as_they_were(
    verb: str, asked: Path, capsys: pytest.CaptureFixture[str]
):
    fill(asked.parent)
    before = snapshot(asked)
    assert main(AGAIN[verb].format(asked).split()) == 2
    assert "No space left on device" in one_sentence(capsys)
    after = snapshot(asked)
    assert {name: after[name] for name in before} == before
    assert not list(asked.rglob("*.partial"))


@pytest.mark.parametrize("verb", ["infer", "evaluate", "pretrain", "resume"])
def test_a_read_only_disk_is_one_sentence(
    verb: str, asked: Path, capsys: pytest.CaptureFixture[str]
):
    (asked / "checkpoints" / "000000020480.safetensors").unlink()  # so that resuming has work to do
    before = snapshot(asked)
    subprocess.run(["mount", "-o", "remount,ro", str(asked.parent)], check=True)
    train = {
        "pretrain": "pretrain --preset smoke --out {}-new",
        "resume": "pretrain --resume {}",
    }
    assert main((AGAIN | train)[verb].format(asked).split()) == 2
    sentence = one_sentence(capsys)
    assert "Read-only file system; free some space or choose another place." in sentence
    assert snapshot(asked) == before


# ------------------------------------------------------------ and where nobody may mount


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_whatever_the_disk_refuses_the_earlier_task_stays(
    call: str,
    code: int,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    from visr import run_dir

    task_with()(tmp_path)
    before = snapshot(tmp_path)

    def refuse(path: Any, *rest: Any, **more: Any) -> Any:
        raise OSError(code, os.strerror(code))

    if call == "open":
        monkeypatch.setattr(run_dir, "open", refuse, raising=False)
    else:
        monkeypatch.setattr(os, call, refuse)
    line = ["infer", str(trained), "--reward", "row", "--out", str(tmp_path / "task.json")]
    assert main(line) == 2
    monkeypatch.undo()
    assert f"{tmp_path / 'task.json'}: {os.strerror(code)}" in one_sentence(capsys)
    assert snapshot(tmp_path) == before
