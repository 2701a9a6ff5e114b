"""Packed models: files to share, and those that are part of the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import visr
from visr.cli import main
from visr.errors import UserError
from visr.storage import packed_models
from visr.storage.files import tensor_metadata, write_tensors


@pytest.fixture
def packed(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> visr.Run:
    """A small run as the package's only model, `tiny`; the working directory is empty."""
    run = visr.load(trained)
    monkeypatch.setattr(packed_models, "PLACE", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    visr.pack(run, packed_models.PLACE / "tiny.safetensors", name="tiny", about="A small one.")
    return run


def test_a_model_acts_as_the_run_it_was_packed_from(packed: visr.Run):
    model = visr.load("pretrained:tiny")
    states = np.arange(100)
    np.testing.assert_array_equal(model.features(states), packed.features(states))
    w = model.infer("boxes:7").w
    np.testing.assert_array_equal(
        model.successor_features(states, w), packed.successor_features(states, w)
    )
    assert model.num_steps == packed.num_steps


def test_results_made_with_a_model_are_written_under_runs(
    packed: visr.Run, capsys: pytest.CaptureFixture[str]
):
    assert main(["infer", "pretrained:tiny", "--reward", "boxes:7"]) == 0
    assert Path("runs/pretrained-tiny/tasks/boxes-7.json").is_file()
    advice = capsys.readouterr().err.split("Next: visr ")[1].split()
    assert main(advice) == 0
    assert main(["task", "list", "pretrained:tiny"]) == 0
    assert "boxes-7" in capsys.readouterr().out
    assert main(["list", "models"]) == 0
    assert "pretrained:tiny  A small one." in capsys.readouterr().out


def test_half_precision_takes_half_the_space_and_is_nearly_equal(packed: visr.Run):
    full = packed_models.open_model("pretrained:tiny")
    half = visr.pack(packed, "half.safetensors", precision="float16")
    assert half.path.stat().st_size < 0.6 * full.path.stat().st_size
    again = half.weights()
    assert all(v.dtype == torch.float32 for v in again.values())
    for name, value in full.weights().items():
        torch.testing.assert_close(again[name], value, rtol=1e-3, atol=1e-5)


def test_8_bit_rows_take_a_third_of_the_space_and_are_close(packed: visr.Run):
    full = packed_models.open_model("pretrained:tiny")
    small = visr.pack(packed, "small.safetensors", precision="int8")
    assert small.path.stat().st_size < 0.35 * full.path.stat().st_size
    again = small.weights()
    for name, value in full.weights().items():
        largest = value.abs().amax() if value.ndim else 1.0
        assert (again[name] - value).abs().max() <= 0.005 * largest + 1e-6, name


def test_tensors_of_three_dimensions_have_a_scale_for_each_row():
    # the last layers of a library: the second one has numbers a thousand times larger
    layers = torch.randn(2, 60, 100) * torch.tensor([1.0, 1000.0])[:, None, None]
    kept = packed_models.stored_weights({"layers": layers}, "int8")
    assert kept["layers"].dtype == torch.int8
    error = (packed_models.restored_weights(kept)["layers"] - layers).abs()
    assert (error <= 0.005 * layers.abs().amax(dim=-1, keepdim=True)).all()


def test_a_model_beyond_its_limit_is_refused(packed: visr.Run):
    with pytest.raises(UserError, match="a model may take 1,000"):
        visr.pack(packed, "huge.safetensors", most=1_000)
    assert not Path("huge.safetensors").exists()


def test_an_unknown_model_is_one_sentence(packed: visr.Run, capsys: pytest.CaptureFixture[str]):
    assert main(["infer", "pretrained:tinny", "--reward", "boxes:7"]) == 2
    assert "did you mean pretrained:tiny?" in capsys.readouterr().err


def test_a_file_takes_the_tasks_along_and_every_verb_takes_the_file(
    packed: visr.Run, capsys: pytest.CaptureFixture[str], trained: Path, tmp_path: Path
):
    assert main(["infer", "pretrained:tiny", "--reward", "boxes:7", "--name", "two-boxes"]) == 0
    assert main(["pack", "pretrained:tiny", "out.safetensors", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (shown["tasks"], shown["about"]) == (["two-boxes"], "A small one.")
    run = visr.load("out.safetensors")
    assert str(run.path).startswith("runs/packed-out-")
    np.testing.assert_array_equal(run.tasks["two-boxes"].w, packed.infer("boxes:7").w)
    for words in (
        ["evaluate", "out.safetensors", "two-boxes"],
        ["play", "out.safetensors", "--task", "two-boxes", "--max-steps", "3"],
        ["infer", "out.safetensors", "--reward", "goal:2,3"],
        ["task", "list", "out.safetensors"],
        ["finetune", "out.safetensors", "--task", "two-boxes", "--num-steps", "320"],
        ["explore", "out.safetensors", "--export", "atlas.html", "--skills", "2"],
        ["pack", "out.safetensors", "again.safetensors", "--no-tasks"],
    ):
        assert main(words) == 0, capsys.readouterr().err
    assert packed_models.open_model("again.safetensors").tasks == {}
    for words in (["report", "out.safetensors"], ["pretrain", "--resume", "out.safetensors"]):
        assert main(words) == 2


def test_packing_the_same_run_twice_gives_the_same_bytes(packed: visr.Run):
    first, second = (visr.pack(packed, f"{name}.safetensors").path for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_agents_that_infer_no_tasks_are_not_packed(tiny: Any, tmp_path: Path):
    from visr import pretraining

    run = visr.Run(pretraining.start(tmp_path / "run", tiny(algorithm="diayn", num_steps=320)))
    with pytest.raises(UserError, match="holds a diayn agent, which infers no tasks"):
        visr.pack(run, tmp_path / "out.safetensors")


def forged(metadata: dict[str, str], tensors: dict[str, torch.Tensor] | None = None) -> Path:
    """The model `tiny` with other metadata or tensors, and a checksum that fits."""
    known = packed_models.open_model("pretrained:tiny").path
    words = {k: v for k, v in tensor_metadata(known).items() if k != "checksum"} | metadata
    tensors = safetensors.torch.load_file(known) | (tensors or {})
    write_tensors(Path("forged.safetensors"), safetensors.torch.save(tensors, metadata=words))
    return Path("forged.safetensors")


def changed_card(**fields: Any) -> dict[str, str]:
    card = json.loads(tensor_metadata(packed_models.open_model("pretrained:tiny").path)["card"])
    return {"card": json.dumps(card | fields)}


def task(**fields: Any) -> dict[str, str]:
    content = visr.load("pretrained:tiny").infer("boxes:7").to_dict() | fields
    return {"tasks": json.dumps({"boxes": content})}


def test_unknown_keys_are_ignored(packed: visr.Run):
    path = forged(changed_card(later="a field of a later version") | {"later": "anything"})
    assert visr.load(path).num_steps == packed.num_steps


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda: {"card": "[" * 100_000}, "its metadata is not JSON"),
        (lambda: {"card": "[]"}, "its card is not a JSON object"),
        (lambda: {"tasks": "[1]"}, "its tasks are not a JSON object"),
        (lambda: {"tasks": '{"../../x": {}}'}, "a task's name is not made of letters"),
        (lambda: changed_card(format=2), "its format is 2"),
        (lambda: changed_card(num_steps=-1), "num_steps is not"),
        (lambda: changed_card(name=""), "the length of name"),
        (lambda: changed_card(about="x" * 3_000), "the length of about"),
        (lambda: changed_card(scores={"fraction_of_optimal": {"a": [[1]]}}), "a is not a finite"),
        (
            lambda: changed_card(config={"env": "visr/Grid-v0", "agent": {"x": 1}}),
            "section `agent`",
        ),
        (lambda: task(w=[0.0, 1.0]), "standard_error does not have"),
        (lambda: task(env="CartPole-v1"), "was made in CartPole-v1"),
        (lambda: task(prompt={"kind": "code"}), "kind is not one of"),
    ],
)
def test_a_strangers_file_is_read_strictly(packed: visr.Run, damage: Any, words: str):
    path = forged(damage())
    with pytest.raises(UserError, match="is not a packed model") as refusal:
        visr.load(path)
    assert words in str(refusal.value)
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"phi.more": torch.zeros(3)}, "does not fit"),
        ({"phi.more": torch.full((2,), torch.nan)}, "phi.more holds NaN or infinity"),
        ({"phi.more": torch.zeros(3, dtype=torch.int64)}, "does not fit"),
        ({"phi.more": torch.zeros(3, 3, dtype=torch.int8)}, "phi.more has no scale for each row"),
        (
            {
                "phi.more": torch.full((1, 1), 127, dtype=torch.int8),
                "phi.more.scale_of_rows": torch.full((1, 1), 3e38),
            },
            "phi.more is too large",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_refused(
    packed: visr.Run, tensors: dict[str, torch.Tensor], words: str
):
    with pytest.raises(UserError, match=words):
        visr.load(forged({}, tensors))


def test_a_file_that_names_code_of_its_own_is_refused_until_it_is_trusted(
    packed: visr.Run, tmp_path: Path
):
    Path("evil.py").write_text("raise SystemExit('code was run')")
    config = json.loads(changed_card()["card"])["config"] | {"env": "evil.py:Evil"}
    with pytest.raises(UserError, match=r"VISR_TRUST=evil\.py"):
        visr.load(forged(changed_card(config=config)))


def test_a_damaged_file_is_one_sentence(packed: visr.Run, capsys: pytest.CaptureFixture[str]):
    path = packed_models.PLACE / "tiny.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"is damaged .its checksum does not match"):
        visr.load("pretrained:tiny")
    for junk in (b"", b"nothing", b"\xff" * 100, (10**9).to_bytes(8, "little") + b"{}"):
        path.write_bytes(junk)
        assert main(["play", str(path)]) == 2
        assert "is not a packed model" in capsys.readouterr().err


@pytest.mark.parametrize("name", packed_models.names())
def test_every_model_of_the_package_loads_and_fits_its_card(name: str):
    model = packed_models.open_model(f"pretrained:{name}")
    assert model.path.stat().st_size <= packed_models.LARGEST_OF_PACKAGE
    run = visr.load(f"pretrained:{name}", device="cpu")
    assert run.config == model.card.config
    assert model.card.recipe
    assert model.card.scores.command
    if run.world is not None:  # the card has their scores
        measured = run.evaluate_families()
        assert measured["boxes"] == pytest.approx(
            model.card.scores.fraction_of_optimal["boxes"], abs=0.01
        )
