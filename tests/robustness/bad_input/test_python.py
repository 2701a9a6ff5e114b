"""The Python API refuses wrong types and values with a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visr
from visr import api
from visr.errors import UserError
from visr.ops import regression, returns, sphere

NAN, INF = math.nan, math.inf
GRID = "visr/Grid-v0"
_VISR: Any = visr


@pytest.fixture(scope="module")
def run(trained: Path) -> api.Run:
    return api.load(trained)


@pytest.fixture(scope="module")
def task(run: api.Run) -> visr.Task:
    return run.skill(0)


@pytest.mark.parametrize(
    "fields",
    [
        {"env": 5}, {"env": ["x"]}, {"env": ""}, {"env": "a b"}, {"preset": 5},
        {"preset": ["x"]}, {"preset": "enormous"}, {"num_steps": NAN}, {"num_steps": 10**5000},
        {"wormholes": 1}, {"device": 5}, {"device": "meta"}, {"hidden_sizes": "x" * 10**5},
        {"cluster": "moon"}, {"cluster": 3}, {"observe": 3}, {"num_envs": 10**9}, {"layout": None},
        {"layout": np.zeros(2)}, {"algorithm": np.array(["visr", "dqn"])}, {"dataset": np.zeros(2)},
        {"dataset": torch.zeros(2)},
    ],
    ids=lambda fields: next(iter(fields)),
)  # fmt: skip
def test_pretrain_refuses_wrong_arguments(
    fields: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    arguments: dict[str, Any] = {"env": GRID, "preset": "smoke"} | fields
    with pytest.raises(UserError) as refused:
        visr.pretrain(**arguments)
    assert len(str(refused.value)) < 500
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["nowhere", "", "a\0b", "x" * 300, "pretrained:", "pretrained:x"])
def test_load_and_resume_refuse_wrong_paths(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    for open_it in (visr.load, visr.resume, visr.Task.load):
        with pytest.raises((UserError, ValueError), match=r"\w"):
            open_it(path)


class Broken:
    """An object of a user whose every conversion raises."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("of mine")

    __fspath__ = __repr__ = __array__  # pyright: ignore


WRONG_PATHS = [
    *(5, 3.5, None, [], {}, True, b"run", "a\0b", np.zeros(2), Broken()),
    *("x" * 256, "é" * 128, "x/" * 2048),  # no system has such names
]


@pytest.mark.parametrize("path", WRONG_PATHS, ids=lambda path: type(path).__name__)
def test_something_other_than_a_path_is_named_with_its_argument(
    path: Any, run: api.Run, task: visr.Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    opens = {"path": [visr.load, visr.resume, lambda path: run.export(task, path)]}
    opens["out"] = [lambda path: visr.pack(run, path)]
    if path is not None:  # None stands for the default
        opens["out"] += [
            lambda path: visr.pretrain(GRID, preset="smoke", out=path),
            lambda path: run.finetune(task, out=path),
            lambda path: visr.pull("someone/something", path),
        ]
        opens["video"] = [lambda path: run.play(task, video=path)]
    for name, functions in opens.items():
        for open_it in functions:
            with pytest.raises(UserError, match=f"^{name} = ") as refused:
                open_it(path)
            if isinstance(path, Broken):
                assert isinstance(refused.value.__cause__, ZeroDivisionError)
    assert list(tmp_path.iterdir()) == []


MASKED = np.ma.masked_equal(np.arange(5.0), 3)
ARRAYS: dict[str, Callable[[api.Run, visr.Task, Any], Any]] = {
    "reward": lambda run, _, given: run.infer(given),
    "which": lambda run, _, given: run.skill(given),
    "observation": lambda run, task, given: run.policy(task)(given),
    "starts": lambda run, task, given: run.policy(task)([0], given),
    "episode_start": lambda run, task, given: run.policy(task).predict([0], None, given),
    "observations": lambda run, _, given: run.features(given),
    "w": lambda run, _, given: run.successor_features([0], given),
    "The demonstration": lambda run, _, given: run.infer(demonstration=given),
    "The segment": lambda run, _, given: run.infer(preferences=[(given, given)]),
    "The reward function's result": lambda run, _, given: run.infer(lambda *_: given),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_no_array_is_named_with_its_argument(name: str, run: api.Run, task: visr.Task):
    for given in (Broken(), [Broken()], MASKED, [MASKED]):
        with pytest.raises(UserError, match=f"^{name} ") as refused:
            ARRAYS[name](run, task, given)
        assert len(str(refused.value)) < 500
        if isinstance(given, Broken):
            assert isinstance(refused.value.__cause__, ZeroDivisionError)
            assert refused.value.__cause__.__traceback__ is not None


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), ZeroDivisionError(), OSError(5, "disk"), AssertionError(), Unprintable()],
)
def test_a_reward_function_that_raises_is_named_and_its_exception_is_the_cause(
    error: Exception, run: api.Run
):
    def reward(*_: Any) -> Any:
        raise error

    with pytest.raises(
        UserError, match=f"The reward function failed .*{type(error).__name__}"
    ) as found:
        run.infer(reward)
    assert found.value.__cause__ is error
    assert error.__traceback__ is not None


CALLS: dict[str, Callable[[api.Run, visr.Task], Any]] = {
    "infer None": lambda run, _: run.infer(None),  # pyright: ignore
    "infer a number": lambda run, _: run.infer(5),
    "infer nothing": lambda run, _: run.infer([]),
    "infer a dictionary": lambda run, _: run.infer({}),  # pyright: ignore
    "infer bytes": lambda run, _: run.infer(b"row"),
    "infer zeros": lambda run, _: run.infer(np.zeros((10, 10))),
    "infer nan": lambda run, _: run.infer(np.full((10, 10), NAN)),
    "infer objects": lambda run, _: run.infer(np.array([{}] * 100)),
    "infer ragged": lambda run, _: run.infer([[1, 2], [3]]),
    "infer by magic": lambda run, _: run.infer("row", method="magic"),
    "infer with wormholes": lambda run, _: run.infer("row", wormholes=1),
    "infer with ridge -1": lambda run, _: run.infer("row", ridge=-1),
    "infer with ridge nan": lambda run, _: run.infer("row", ridge=NAN),
    "infer with ridge x": lambda run, _: run.infer("row", ridge="x"),
    "infer centred 1": lambda run, _: run.infer("row", centred=1),
    "infer the grid's own": lambda run, _: run.infer("env"),
    "compare a number": lambda run, _: run.compare(5),  # pyright: ignore
    "skill True": lambda run, _: run.skill(True),
    "skill numpy's True": lambda run, _: run.skill(np.True_),
    "policy of True": lambda run, _: run.policy(True),
    "skill -1": lambda run, _: run.skill(-1),
    "skill 2^31": lambda run, _: run.skill(2**31),
    "skill x": lambda run, _: run.skill("x"),
    "skill None": lambda run, _: run.skill(None),  # pyright: ignore
    "skill 1.5": lambda run, _: run.skill(1.5),
    "skill of zeros": lambda run, _: run.skill([0] * 5),
    "skill of nan": lambda run, _: run.skill([NAN] * 5),
    "skill of 1e308": lambda run, _: run.skill([1e308] * 5),
    "skill of three": lambda run, _: run.skill([1, 2, 3]),
    "policy of words": lambda run, _: run.policy("goal"),  # pyright: ignore
    "policy of None": lambda run, _: run.policy(None),  # pyright: ignore
    "policy at epsilon 2": lambda run, task: run.policy(task, epsilon=2),
    "policy at epsilon nan": lambda run, task: run.policy(task, epsilon=NAN),
    "policy at epsilon x": lambda run, task: run.policy(task, epsilon="x"),  # pyright: ignore
    "act on 1000": lambda run, task: run.policy(task)(1000),
    "act on -1": lambda run, task: run.policy(task)(-1),
    "act on 1.5": lambda run, task: run.policy(task)(1.5),
    "act on nan": lambda run, task: run.policy(task)(NAN),
    "act on words": lambda run, task: run.policy(task)("x"),
    "act on None": lambda run, task: run.policy(task)(None),
    "act on a matrix": lambda run, task: run.policy(task)([[0]]),
    "predict words": lambda run, task: run.policy(task).predict("x"),
    "evaluate words": lambda run, _: run.evaluate("goal"),  # pyright: ignore
    "families at gamma 2": lambda run, _: run.evaluate_families(gamma=2),
    "families at gamma nan": lambda run, _: run.evaluate_families(gamma=NAN),
    "features of 1000": lambda run, _: run.features([1000]),
    "features of nan": lambda run, _: run.features([NAN]),
    "features of words": lambda run, _: run.features("x"),
    "psi of nan": lambda run, _: run.successor_features([0], [NAN] * 5),
    "psi of inf": lambda run, _: run.successor_features([0], [INF] * 5),
    "psi of two": lambda run, _: run.successor_features([0], [1, 2]),
    "psi of words": lambda run, _: run.successor_features([0], "x"),
    "refine None": lambda run, _: run.refine(None),  # pyright: ignore
    "refine for words": lambda run, task: run.refine(task, seconds="x"),  # pyright: ignore
    "refine for True": lambda run, task: run.refine(task, seconds=True),
    "refine for 1.5 updates": lambda run, task: run.refine(task, num_updates=1.5),  # pyright: ignore
    "refine for True updates": lambda run, task: run.refine(task, num_updates=True),
    "refine for 10^5000 updates": lambda run, task: run.refine(task, num_updates=10**5000),
    "refine from 3": lambda run, task: run.refine(task, data=3),  # pyright: ignore
    "refine from an object": lambda run, task: run.refine(task, data=Broken()),  # pyright: ignore
    "refine with resume as a tensor": lambda run, task: run.refine(task, resume=torch.zeros(2)),  # pyright: ignore
    "infer half a character": lambda run, _: run.infer(preferences="\ud800"),
    "10^5000 times a task": lambda run, task: 10**5000 * task,
    "mix 10^5000 times a task": lambda run, task: visr.mix([(task, 10**5000)]),
    "refine with -1 steps": lambda run, task: run.refine(task, rewarded_steps=-1),
    "infer and refine words": lambda run, _: run.infer("row", refine="x"),  # pyright: ignore
    "infer the goal True": lambda run, _: run.infer(goal=True),
    "infer the goal NUL": lambda run, _: run.infer(goal="a\0b"),
    "infer preferences NUL": lambda run, _: run.infer(preferences="a\0b"),
    "infer the name 3": lambda run, _: run.infer("row", name=3),  # pyright: ignore
    "diagnose None": lambda run, _: run.diagnose(None),  # pyright: ignore
    "learn from dataset 3": lambda *_: visr.pretrain(dataset=3),
    "push to 3": lambda run, _: visr.push(run, 3),  # pyright: ignore
    "pull None": lambda *_: visr.pull(None),  # pyright: ignore
    "collect for no episodes": lambda run, _: run.collect_rewarded(num_episodes=0),
    "collect for no steps": lambda run, _: run.collect_rewarded(num_steps=0),
    "collect with seed -1": lambda run, _: run.collect_rewarded(seed=-1),
    "evaluate no episodes": lambda run, task: run.evaluate_task(task, num_episodes=0),
    "evaluate at epsilon nan": lambda run, task: run.evaluate_task(task, epsilon=NAN),
    "evaluate with seed -1": lambda run, task: run.evaluate_task(task, seed=-1),
    "evaluate a string": lambda run, _: run.evaluate_task("goal"),  # pyright: ignore
    "export words": lambda run, _: run.export("goal", "p.onnx"),  # pyright: ignore
    "finetune words": lambda run, _: run.finetune("goal"),  # pyright: ignore
    "finetune for no steps": lambda run, task: run.finetune(task, num_steps=0),
    "finetune with wormholes": lambda run, task: run.finetune(task, wormholes=1),
    "another's task": lambda run, task: run.policy(_elsewhere(task)),
}


def _elsewhere(task: visr.Task) -> visr.Task:
    import dataclasses

    return dataclasses.replace(task, env="Taxi-v4")


@pytest.mark.parametrize("name", CALLS)
def test_methods_of_a_run_refuse_wrong_arguments(name: str, run: api.Run, task: visr.Task):
    with pytest.raises(UserError) as refused:
        CALLS[name](run, task)
    sentence = str(refused.value)
    assert sentence.endswith((".", "?"))
    assert len(sentence) < 500


def seen() -> regression.RewardSums:
    sums = regression.RewardSums(2)
    sums.add([[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0])
    return sums


EYE = torch.eye(3)
MATHEMATICS: dict[str, Callable[[], Any]] = {
    "draws around nan": lambda: sphere.vmf_sample(torch.full((3,), NAN), 5, 2),
    "draws at nan": lambda: sphere.vmf_sample(EYE, NAN, 2),
    "draws at inf": lambda: sphere.vmf_sample(EYE, INF, 2),
    "draws at -1": lambda: sphere.vmf_sample(EYE, -1, 2),
    "draws in one dimension": lambda: sphere.vmf_sample(torch.ones(1), 5, 2),
    "a return of 0 steps": lambda: returns.n_step(EYE, EYE, torch.ones(4, 3), 0),
    "a return of -1 steps": lambda: returns.n_step(EYE, EYE, torch.ones(4, 3), -1),
    "sums of no features": lambda: regression.RewardSums(0),
    "sums of -3 features": lambda: regression.RewardSums(-3),
    "sums of nan": lambda: seen().add([[1, NAN]], [1]),
    "sums of inf": lambda: seen().add([[1, 2]], [INF]),
    "sums of words": lambda: seen().add([["a", "b"]], [1]),
    "sums of other shapes": lambda: seen().add([[1, 2]], [1, 2]),
    "sums of two kinds": lambda: seen() + regression.RewardSums(3),
    "a fit to nothing": lambda: regression.solve(regression.RewardSums(2)),
    "a fit with ridge -1": lambda: regression.solve(seen(), ridge=-1),
    "a fit with ridge nan": lambda: regression.solve(seen(), ridge=NAN),
}


@pytest.mark.parametrize("name", MATHEMATICS)
def test_functions_of_ops_refuse_wrong_arguments(name: str):
    with pytest.raises((UserError, ValueError), match=r"\w"):
        MATHEMATICS[name]()


def test_wrong_shapes_raise_torchs_error():
    with pytest.raises(RuntimeError, match="size"):
        returns.n_step(EYE, EYE, torch.ones(3, 3), 1)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda run, task: run.skill(0, name=3), "name"),
        (lambda run, task: _VISR.Task(w=task.w, name=3), "name"),
        (lambda run, task: run.play(task, num_episodes="x"), "num_episodes"),
        (lambda run, task: run.finetune(task, name=3), "name"),
        (lambda run, task: run.finetune(task, consult=3), "consult"),
        (lambda run, task: run.finetune(task, observe=3), "observe"),
        (lambda run, task: run.refine(task, until_done="x"), "until_done"),
        (lambda run, task: run.refining(task, limit=3), "limit"),
        (lambda run, task: _VISR.resume(run.directory.path, num_steps=1e9), "num_steps"),
        (lambda run, task: _VISR.resume(run.directory.path, observe=3), "observe"),
        (lambda run, task: _VISR.mix(3), "pairs"),
        (lambda run, task: _VISR.mix([(task, "x")]), "pairs"),
        (lambda run, task: _VISR.mix([(3, 1.0)]), "pairs"),
    ],
)
def test_wrong_types_are_refused_by_the_name_of_the_argument(
    call: Callable[[Any, Any], object], named: str, run: api.Run, task: visr.Task
):
    with pytest.raises(UserError, match=named):
        call(run, task)
