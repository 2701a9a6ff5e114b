"""Policies as ONNX files: another program's arithmetic, the same actions."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.play.test_policy import seen, task, trained_run
from tests.test_cli import visr
from visr import Run, load, pretraining
from visr import config as configuration
from visr.config import presets
from visr.errors import UserError
from visr.storage.run_dir import RunDir

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")


@pytest.fixture(scope="module")
def pole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained_run(tmp_path_factory.mktemp("pole") / "run", "CartPole-v1")


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def actions(path: Path, observation: np.ndarray) -> np.ndarray:
    return session(path).run(["action"], {"observation": observation})[0]


def test_a_policy_of_vectors_acts_the_same_in_batches_of_any_size(pole: Run, tmp_path: Path):
    path = pole.export(task(pole), tmp_path / "new" / "pole.onnx")
    policy = pole.policy(task(pole), gpi=False)
    for count in (1, 2, 3, 200):
        batch = seen(count)
        chosen = actions(path, batch)
        assert chosen.dtype == np.int64
        assert chosen.tolist() == policy(batch).tolist()
    assert set(chosen) == {0, 1}
    assert list(path.parent.iterdir()) == [path]


def test_the_file_says_whose_policy_it_is(pole: Run, tmp_path: Path):
    model = onnx.load(pole.export(task(pole), tmp_path / "pole.onnx", gpi=True))
    onnx.checker.check_model(model)
    assert model.doc_string == "visr: CartPole-v1, task mine, greedy with GPI"
    told = {pair.key: pair.value for pair in model.metadata_props}
    assert told == {"env": "CartPole-v1", "task": "mine", "method": "by hand"}


def test_half_a_surrogate_pair_in_a_name_is_spelled_out(pole: Run, tmp_path: Path):
    odd = dataclasses.replace(task(pole), name="\ud800x", method="\udfff")
    path = pole.export(odd, tmp_path / "policy.onnx")
    props = {p.key: p.value for p in onnx.load(path).metadata_props}
    assert (props["task"], props["method"]) == ("\\ud800x", "\\udfff")


def test_a_policy_of_states_acts_the_same(trained: Path, tmp_path: Path):
    run = Run(RunDir.open(trained))
    wanted = run.infer("goal:2,3")
    path = run.export(wanted, tmp_path / "grid.onnx")
    states = np.arange(100)
    chosen = actions(path, states)
    assert chosen.tolist() == run.policy(wanted, gpi=False)(states).tolist()
    assert len(set(chosen)) > 1


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_a_policy_of_minatars_planes_acts_the_same(tmp_path: Path, core: str):
    pytest.importorskip("minatar")
    fields = {"torso": "minatar", "core": core, "precision": "float32"}
    run = trained_run(tmp_path / "run", "MinAtar/Breakout-v1", **fields)
    exported = session(run.export(task(run), tmp_path / "breakout.onnx"))
    policy = run.policy(task(run), gpi=False)
    for count in (1, 50):
        planes = np.random.default_rng(0).integers(2, size=(count, 4, 10, 10), dtype=np.uint8)
        given = {"observation": planes}
        if core == "lstm":
            zeros = np.zeros((count, run.agent.psi.memory_size), np.float32)
            given |= {"previous_action": np.full(count, -1), "memory": zeros}
        assert exported.run(["action"], given)[0].tolist() == policy(planes).tolist()


def test_a_policy_with_a_memory_is_handed_what_it_gave_back(tmp_path: Path):
    run = trained_run(tmp_path / "run", "CartPole-v1", core="lstm")
    path = run.export(task(run), tmp_path / "pole.onnx")
    policy, exported = run.policy(task(run), gpi=False), session(path)
    size = run.agent.psi.memory_size
    previous, memory, chosen = np.full(3, -1), np.zeros((3, size), np.float32), []
    for step, batch in enumerate(seen(10, 3)):
        starts = np.array([step in (0, 6), step == 0, step == 0])
        given = {"observation": batch, "previous_action": np.where(starts, -1, previous)}
        previous, memory = exported.run(["action", "next_memory"], given | {"memory": memory})
        assert previous.tolist() == policy(batch, starts).tolist()
        assert policy._actor is not None
        assert np.allclose(memory, policy._actor.memory()[1], atol=1e-5)
        chosen += previous.tolist()
    assert set(chosen) == {0, 1}


def test_gpi_is_exported_over_neighbours_that_were_drawn_once(pole: Run, tmp_path: Path):
    wanted, agent, batch = task(pole), pole.agent, seen(300)
    w = torch.tensor(wanted.w, dtype=torch.float32)
    for seed in (0, 1):
        path = pole.export(wanted, tmp_path / f"{seed}.onnx", gpi=True, seed=seed)
        policies = agent.sample_policies(w, torch.Generator().manual_seed(seed), gpi=True)
        assert len(policies) == 11
        with torch.no_grad():
            hidden = agent.psi.first_step(torch.from_numpy(batch)).unsqueeze(1)
            values = (agent.psi.heads(hidden, policies) @ w).amax(dim=1)
        assert actions(path, batch).tolist() == values.argmax(dim=-1).tolist()


def test_exporting_leaves_the_agent_as_it_was(pole: Run, tmp_path: Path):
    before = {name: value.clone() for name, value in pole.agent.state_dict().items()}
    pole.export(task(pole), tmp_path / "pole.onnx")
    after = pole.agent.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


@pytest.mark.parametrize("missing", ["onnx", "onnxscript"])
def test_without_onnx_one_sentence_says_how_to_get_it(
    pole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        UserError, match=rf'Exporting needs {missing}: pip install "visr\[export\]"'
    ):
        pole.export(task(pole), tmp_path / "pole.onnx")
    assert not list(tmp_path.iterdir())


def test_exporting_on_the_command_line(pole: Run, tmp_path: Path):
    wanted, out = tmp_path / "mine.json", tmp_path / "pole.onnx"
    task(pole).save(wanted)
    answer = visr("export", pole.path, wanted, out, "--json").json
    assert answer == {
        "file": str(out),
        "inputs": {"observation": ["N", 4]},
        "size": out.stat().st_size,
    }
    assert actions(out, seen(20)).tolist() == pole.policy(task(pole), gpi=False)(seen(20)).tolist()
    shown = visr("export", pole.path, wanted, out, "--policy", "gpi", "--seed", "3")
    assert (shown.code, shown.err) == (0, "")
    assert "[N, 4]" in shown.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mine.json", "policy.pt"), "not the name of an ONNX file"),
        (("nobody", "policy.onnx"), "There is no task 'nobody'"),
        (("boxes:7", "policy.onnx"), "`visr infer RUN --reward boxes:7` makes one."),
        (("mine.json", "policy.onnx", "--seed", "-1"), "seed = -1"),
        (("mine.json", "policy.onnx", "--policy", "best"), "export --help"),
        (("other.json", "policy.onnx"), "has 2 features and this run has 3"),
        (("mine.json", "mine.json/policy.onnx"), "Cannot write"),
    ],
)
def test_what_cannot_be_exported_is_said_in_one_sentence(
    pole: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
):
    monkeypatch.chdir(tmp_path)
    task(pole).save(tmp_path / "mine.json")
    task(pole, [1.0, 0]).save(tmp_path / "other.json")
    answer = visr("export", pole.path, *arguments)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert words in answer.err
    assert not list(tmp_path.glob("policy*"))


def test_a_policy_of_planes_acts_the_same(tmp_path: Path):
    run = load("pretrained:minatar-breakout")
    path = run.export(run.skill(3), tmp_path / "planes.onnx")
    planes = (np.random.default_rng(0).random((50, 4, 10, 10)) < 0.1).astype(np.uint8)
    chosen = run.policy(run.skill(3), gpi=False)(planes)
    assert actions(path, planes).tolist() == chosen.tolist()
    assert len(set(chosen.tolist())) > 1


def test_a_library_with_last_layers_of_its_own_is_exported(tmp_path: Path):
    fields = {"height": 3, "width": 3, "num_envs": 4, "num_steps": 600, "warmup_steps": 512}
    fields |= {"num_updates": 40, "evaluate_every": 10**9, "recorded_steps": 500}
    config = configuration.replace(presets.get("replay-grid"), env="visr/Grid-v0", **fields)
    run = Run(pretraining.start(tmp_path / "run", config))
    wanted = run.infer(np.arange(9.0).reshape(3, 3))
    path = run.export(wanted, tmp_path / "grid.onnx", gpi=True)
    states = np.arange(8)  # in the last corner two actions stay there
    assert run.visr.library_readout is not None  # pyright: ignore
    chosen = actions(path, states).tolist()
    assert chosen == run.policy(wanted, gpi=True)(states).tolist()
    assert chosen != run.policy(wanted, gpi=False)(states).tolist()
