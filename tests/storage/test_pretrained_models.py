"""Pre-trained models that are part of the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import visr
from visr.cli import main
from visr.errors import UserError
from visr.storage import pretrained_models


@pytest.fixture
def packed(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> visr.Run:
    """A small run as the package's only model, `tiny`; the working directory is empty."""
    run = visr.load(trained)
    monkeypatch.setattr(pretrained_models, "PLACE", tmp_path / "models")
    monkeypatch.chdir(tmp_path)
    networks = {"phi": run.agent.phi, "psi": run.agent.psi}
    tensors = {f"{n}.{k}": v for n, net in networks.items() for k, v in net.state_dict().items()}
    pretrained_models.pack(card(run, "float32"), tensors, pretrained_models.PLACE)
    return run


def card(run: visr.Run, precision: Any, name: str = "tiny") -> pretrained_models.Card:
    return pretrained_models.Card(
        name, "A small one.", run.num_steps, 0, precision, {}, ("visr pretrain",), run.config
    )


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
    tensors = pretrained_models.weights("tiny")
    half = pretrained_models.pack(card(packed, "float16", "half"), tensors, pretrained_models.PLACE)
    assert half.stat().st_size < 0.6 * (pretrained_models.PLACE / "tiny.safetensors").stat().st_size
    again = pretrained_models.weights("half")
    assert all(v.dtype == torch.float32 for v in again.values())
    for name, value in tensors.items():
        torch.testing.assert_close(again[name], value, rtol=1e-3, atol=1e-5)


def test_a_model_beyond_two_megabytes_is_refused(packed: visr.Run):
    with pytest.raises(UserError, match="a model may take"):
        pretrained_models.pack(
            card(packed, "float32", "huge"),
            {"phi.x": torch.zeros(600_000)},
            pretrained_models.PLACE,
        )
    assert "huge" not in pretrained_models.names()


def test_an_unknown_model_is_one_sentence(packed: visr.Run, capsys: pytest.CaptureFixture[str]):
    assert main(["infer", "pretrained:tinny", "--reward", "boxes:7"]) == 2
    assert "did you mean pretrained:tiny?" in capsys.readouterr().err


def test_a_damaged_model_is_one_sentence(packed: visr.Run):
    (pretrained_models.PLACE / "tiny.safetensors").write_bytes(b"nothing")
    with pytest.raises(UserError, match="is damaged"):
        visr.load("pretrained:tiny")
    (pretrained_models.PLACE / "tiny.json").write_text(json.dumps({"format": 1, "name": "tiny"}))
    with pytest.raises(UserError, match="is damaged"):
        visr.load("pretrained:tiny")


@pytest.mark.parametrize("name", pretrained_models.names())
def test_every_model_of_the_package_loads_and_fits_its_card(name: str):
    path = pretrained_models.PLACE / f"{name}.safetensors"
    assert path.stat().st_size <= pretrained_models.LARGEST
    known = pretrained_models.card(name)
    run = visr.load(f"pretrained:{name}", device="cpu")
    assert run.config == known.config
    assert known.recipe
    assert known.scores
    if run.world is not None:  # the card has their scores
        measured = run.evaluate_families()
        assert measured["boxes"] == pytest.approx(
            known.scores["fraction_of_optimal"]["boxes"], abs=0.01
        )
