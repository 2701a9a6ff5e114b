"""The Python front door: what the README shows, and that a stranger's run cannot make us do anything."""

from __future__ import annotations

import ast
import json
import math
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import visr
from visr.cli import main
from visr.inference.collect import own_tasks
from visr.storage.files import read_json
from visr.training import checkpoint

SOURCE = Path(visr.__file__).parent
STATES = np.arange(100)
ROW, COL = np.divmod(STATES, 10)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> visr.Run:
    path = tmp_path_factory.mktemp("api") / "run"
    return visr.pretrain("visr/Grid-v0", preset="smoke", out=path, num_steps=5_120, seed=1)


@pytest.fixture(scope="module")
def task(run: visr.Run) -> visr.Task:
    return run.infer(reward=np.hypot(ROW - 3, COL - 4))


def test_a_run_knows_what_it_is(run: visr.Run):
    assert run.num_steps == 5_120
    assert run.config.training.seed == 1
    assert run.path == run.directory.path
    assert not any(parameter.requires_grad for parameter in run.agent.parameters())


def test_pretraining_without_a_place_finds_a_free_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    Path("runs/visr-grid-v0-1").mkdir(parents=True)
    run = visr.pretrain(preset="smoke", num_steps=1_280, hidden_sizes=[8])
    assert run.path == Path("runs/visr-grid-v0-2")
    assert run.config.agent.hidden_sizes == (8,)


def test_observe_is_called_after_every_round(tmp_path: Path):
    heard = []
    visr.pretrain(preset="smoke", num_steps=2_560, out=tmp_path / "run", observe=heard.append)
    assert [status.num_steps for status in heard][-1] == 2_560
    assert {status.total_steps for status in heard} == {2_560}
    assert "span" in heard[-1].evaluation


# ---------------------------------------------------------------- phi, psi and policies


def test_features_have_unit_length(run: visr.Run):
    phi = run.features(STATES)
    assert phi.shape == (100, 5)
    assert phi.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(phi, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(run.features([7])[0], phi[7], rtol=1e-5)
    np.testing.assert_allclose(run.features(7), phi[7], rtol=1e-5)
    many = np.tile(STATES, 3)  # more than there are states: another path through the network
    np.testing.assert_allclose(run.features(many), np.tile(phi, (3, 1)), rtol=1e-5)


def test_successor_features_take_one_task_or_one_each(run: visr.Run, task: visr.Task):
    psi = run.successor_features(STATES, task.w)
    assert psi.shape == (100, 4, 5)
    each = run.successor_features(STATES, np.tile(task.w, (100, 1)))
    np.testing.assert_allclose(psi, each, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(run.successor_features(7, task.w), psi[7], rtol=1e-4, atol=1e-5)


def test_without_gpi_the_policy_maximises_psi_times_w(run: visr.Run, task: visr.Task):
    values = run.successor_features(STATES, task.w) @ task.w  # [S, A]
    chosen = run.policy(task, gpi=False)(STATES)
    # equal up to rounding: what was chosen is worth as much as the best
    np.testing.assert_allclose(values[STATES, chosen], values.max(axis=1), rtol=1e-4, atol=1e-5)


def test_a_policy_gives_an_int_for_one_observation_and_an_array_for_many(
    run: visr.Run, task: visr.Task
):
    policy = run.policy(task)
    assert type(policy(0)) is int
    assert type(policy(np.int64(5))) is int
    assert policy(0) in range(4)
    actions = policy(STATES)
    assert actions.shape == (100,)
    assert set(actions) <= {0, 1, 2, 3}
    assert policy([3]).shape == (1,)


def test_a_policy_walks_in_the_registered_environment(run: visr.Run, task: visr.Task):
    import gymnasium

    env, policy = gymnasium.make("visr/Grid-v0"), run.policy(task)
    observation, _ = env.reset(seed=0)
    for _ in range(10):
        observation, *_ = env.step(policy(observation))
    assert observation in env.observation_space


def test_epsilon_one_is_the_uniform_policy(run: visr.Run, task: visr.Task):
    actions = run.policy(task, epsilon=1.0)(np.zeros(4_000, dtype=int))
    counts = np.bincount(actions, minlength=4)
    assert np.all(np.abs(counts - 1_000) < 5 * np.sqrt(4_000 * 0.25 * 0.75))


# -------------------------------------------------------------------- tasks and their worth


def test_an_array_and_the_same_array_in_a_file_are_the_same_task(run: visr.Run, tmp_path: Path):
    reward = np.random.default_rng(0).normal(size=(10, 10))
    np.save(tmp_path / "reward.npy", reward)
    np.savetxt(tmp_path / "reward.csv", reward, delimiter=",", fmt="%.17g")
    tasks = [run.infer(r) for r in (reward, reward.ravel(), reward.tolist())]
    tasks += [run.infer(str(tmp_path / f"reward.{kind}")) for kind in ("npy", "csv")]
    for task in tasks:
        assert task.reward is not None
        np.testing.assert_array_equal(task.w, tasks[0].w)
        np.testing.assert_array_equal(task.reward, reward.ravel())
        assert task.r_squared == tasks[0].r_squared


def test_a_planted_task_is_found_and_fits_perfectly(run: visr.Run):
    w = np.array([0.0, 0.6, 0.0, -0.8, 0.0])
    task = run.infer(run.features(STATES).astype(np.float64) @ w * 7)
    np.testing.assert_allclose(task.w, w, atol=1e-6)
    assert task.r_squared == pytest.approx(1)


def test_a_task_survives_its_file(run: visr.Run, task: visr.Task, tmp_path: Path):
    task.save(tmp_path / "task.json")
    again = visr.Task.load(tmp_path / "task.json")
    assert again.to_dict() == task.to_dict()
    assert (
        run.evaluate_exactly(again).fraction_of_optimal
        == run.evaluate_exactly(task).fraction_of_optimal
    )


def test_fractions_never_exceed_one_and_equal_the_command_lines(
    run: visr.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = visr.load(shutil.copytree(run.path, tmp_path / "run"))
    for reward in ("boxes:7", "goal:2,3", "row > 5"):
        name = json.loads(cli(capsys, "infer", copy, "--reward", reward))["file"]
        shown = json.loads(cli(capsys, "evaluate", copy, name))
        mine = run.evaluate_exactly(run.infer(reward))
        assert mine.to_dict() == shown
        assert mine.fraction_of_optimal <= 1
    families = json.loads(cli(capsys, "evaluate", copy, "--gamma", "0.9"))
    mine = run.evaluate_families(gamma=0.9)
    assert mine.items() <= families.items()
    assert max(mine.values()) <= 1


def cli(capsys: pytest.CaptureFixture[str], verb: str, run: visr.Run, *rest: str) -> str:
    assert main([verb, str(run.path), *rest, "--json"]) == 0
    return capsys.readouterr().out


def test_an_optimal_policy_for_a_reward_in_the_span_would_be_worth_one(run: visr.Run):
    """The evaluation's own ends: the optimal value is worth 1, the random policy's 0."""
    task = run.infer("row + col")
    result = run.evaluate_exactly(task)
    assert result.value_random < result.value_optimal
    assert result.values.max() <= result.value_optimal / (1 - result.gamma)
    np.testing.assert_allclose(result.values.mean(), result.value)


# ------------------------------------------------------------------------- load and resume


def test_a_loaded_run_gives_the_same_answers(run: visr.Run, task: visr.Task):
    loaded = visr.load(run.path)
    assert loaded.num_steps == run.num_steps
    assert loaded.config == run.config
    np.testing.assert_array_equal(loaded.features(STATES), run.features(STATES))
    np.testing.assert_array_equal(
        loaded.successor_features(STATES, task.w), run.successor_features(STATES, task.w)
    )
    np.testing.assert_array_equal(loaded.policy(task)(STATES), run.policy(task)(STATES))
    np.testing.assert_array_equal(loaded.infer("boxes:7").w, run.infer("boxes:7").w)


def test_resuming_a_finished_run_changes_nothing(run: visr.Run):
    files = [checkpoint.newest(run.directory), run.directory.metrics, run.directory.evaluation]
    before = [file.read_bytes() for file in files]
    heard = []
    resumed = visr.resume(run.path, observe=heard.append)
    assert heard == []
    assert [file.read_bytes() for file in files] == before
    np.testing.assert_array_equal(resumed.features(STATES), run.features(STATES))


# -------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "observations", [[-1], [100], [0.5], ["a"], [True], [], None, np.nan, [[0, 1], [2, 100]]]
)
def test_what_is_no_observation_is_refused(run: visr.Run, task: visr.Task, observations: Any):
    for ask in (
        run.features,
        run.policy(task),
        lambda observations: run.successor_features(observations, task.w),
    ):
        with pytest.raises(visr.UserError, match="whole numbers from 0 to 99"):
            ask(observations)


@pytest.mark.parametrize(
    "w",
    [1.0, [1.0], [1.0] * 6, np.ones((5, 1)), np.ones((2, 5)), np.ones((1, 3, 5)), ["a"] * 5, None],
)
def test_a_w_of_another_shape_is_refused(run: visr.Run, w: Any):
    with pytest.raises(visr.UserError, match="5 features"):
        run.successor_features([1, 2, 3], w)


def test_a_task_of_another_run_is_refused(run: visr.Run, tmp_path: Path):
    other = visr.pretrain(preset="smoke", num_steps=1_280, num_features=3, out=tmp_path / "other")
    task = other.infer("row")
    for ask in (run.policy, run.evaluate):
        with pytest.raises(visr.UserError, match="`row` has 3 features and this run has 5"):
            ask(task)


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"ridge": -1.0}, "ridge = -1"),
        ({"centred": "yes"}, "centred = 'yes'"),
        ({"gamma": 0.5}, "not gamma"),
        ({"wormholes": 3}, "not wormholes"),
    ],
)
def test_infer_takes_the_fields_of_inference_only(
    run: visr.Run, fields: dict[str, Any], match: str
):
    with pytest.raises(visr.UserError, match=match):
        run.infer("row", **fields)


@pytest.mark.parametrize("reward", [None, {}, [[1, 2], [3]], np.zeros((10, 10)), 1.0, "row >"])
def test_what_is_no_reward_is_refused(run: visr.Run, reward: Any):
    with pytest.raises(visr.UserError):
        run.infer(reward)


def test_pretrain_refuses_before_it_writes(tmp_path: Path):
    mistakes: list[dict[str, Any]] = [{"num_steps": 0}, {"wormholes": 3}, {"env": "X-v0"}]
    for fields in [*mistakes, {"preset": "enormous"}]:
        with pytest.raises(visr.UserError):
            visr.pretrain(out=tmp_path / "run", **fields)
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------------------- the public names


def test_every_public_name_resolves():
    for name in visr.__all__:
        value = getattr(visr, name)
        assert value.__doc__, name


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'wormhole'"):
        visr.wormhole  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


# ------------------------------------------------------ a stranger's run executes nothing

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
FORBIDDEN_MODULES |= {"yaml", "code", "runpy"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "input", "system", "popen"}


def executions(tree: ast.AST) -> list[str]:
    """Whatever could turn data into deeds."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [a.name for a in node.names if a.name.split(".")[0] in FORBIDDEN_MODULES]
        if (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").split(".")[0] in FORBIDDEN_MODULES
        ):
            found.append(str(node.module))
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            is_method = isinstance(node.func, ast.Attribute)
            if name.split(".")[-1] in FORBIDDEN_CALLS and name not in {
                "re.compile",
                "torch.compile",
            }:
                found += [name] if not is_method or name.startswith(("os.", "builtins.")) else []
            if name in {"torch.load", "torch.jit.load", "torch.hub.load", "yaml.load"}:
                found.append(name)
            for keyword in node.keywords:
                if (
                    keyword.arg in {"allow_pickle", "shell"}
                    and ast.unparse(keyword.value) != "False"
                ):
                    found.append(ast.unparse(keyword))
    return found


@pytest.mark.parametrize(
    "text",
    [
        "import pickle", "from pickle import loads", "torch.load(x)", "eval(x)", "exec(x)",
        "yaml.load(x)", "np.load(x, allow_pickle=True)", "np.load(x, allow_pickle=y)",
        "run(x, shell=True)", "__import__(x)", "os.system(x)", "import joblib.externals",
    ],
)  # fmt: skip
def test_the_search_for_executions_finds_them(text: str):
    assert executions(ast.parse(text))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.stem)
def test_nothing_in_the_source_can_execute_what_a_file_says(path: Path):
    assert executions(ast.parse(path.read_text())) == []


def test_numpy_is_told_never_to_unpickle():
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "np.load":
                keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
                assert keywords.get("allow_pickle") == "False", path


def test_an_untrusted_run_imports_no_module_that_it_names(
    run: visr.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "trap.py").write_text("raise SystemExit('executed')")
    monkeypatch.syspath_prepend(str(tmp_path))
    copy = shutil.copytree(run.path, tmp_path / "run")
    content = read_json(copy / "config.json")
    content["config"]["env"] = "trap:Trap-v0"
    (copy / "config.json").write_text(json.dumps(content))
    for open_it in (visr.load, visr.resume):
        with pytest.raises(visr.UserError, match="trap:Trap-v0"):
            open_it(copy)
    assert "trap" not in sys.modules


def test_a_skill_is_what_the_command_line_plays_under_that_seed(run: visr.Run):
    w = own_tasks(run.agent, 7)()
    np.testing.assert_allclose(run.skill(7).w, w, rtol=1e-6)
    assert run.skill(7).name == "skill:7"


def test_a_direction_of_ones_own_is_brought_to_unit_length(run: visr.Run):
    task = run.skill([3, 0, 4, 0, 0], name="mine")
    np.testing.assert_allclose(task.w, [0.6, 0, 0.8, 0, 0])
    assert task.name == "mine"


@pytest.mark.parametrize("w", [[1, 2], [0] * 5, [math.nan] * 5, "abcde", [[1] * 5], -1, 2**40])
def test_a_direction_that_points_nowhere_is_refused(run: visr.Run, w: Any):
    with pytest.raises(visr.UserError):
        run.skill(w)
