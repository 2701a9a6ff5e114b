"""`make model`: one command makes a packed model, its card and its film, for every kind of environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import visr
from visr import config as configuration
from visr import pretraining
from visr.config import presets
from visr.storage import packed_models

ROOT = Path(__file__).parent.parent
SMALL = {
    "num_envs": 8,
    "unroll_length": 16,
    "num_updates": 24,
    "num_steps": 4_096,
    "warmup_steps": 1_024,
    "recorded_steps": 1_000,
    "seed": 1,
}


def made(place: Path, name: str, env: str, preset: str, **fields: object) -> packed_models.Card:
    """Train a small run, run the command, and return the card."""
    if (place / f"{name}.safetensors").exists():
        return packed_models.open_model(place / f"{name}.safetensors").card
    config = configuration.replace(presets.get(preset), env=env, **{**SMALL, **fields})
    pretraining.start(place / "runs" / name, config)
    options = ["--name", name, "--num-episodes", "2", "--num-tasks", "2"]
    places = ["--models", str(place), "--films", str(place)]
    script = str(ROOT / "experiments/pack_model.py")
    command = [sys.executable, script, str(place / "runs" / name), *options, *places]
    path = {**os.environ, "PYTHONPATH": str(ROOT / "experiments")}  # a test of Ray sets a safe one
    done = subprocess.run(command, cwd=place, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return packed_models.open_model(place / f"{name}.safetensors").card


def made_grid(place: Path) -> packed_models.Card:
    """A grid run whose library fits into 2 MB."""
    small = {"num_features": 104, "library_size": 112, "psi_width": 128}
    return made(place, "grid", "visr/Grid-v0", "replay-grid", evaluate_every=4_096, **small)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def test_the_card_of_a_grid_has_exact_scores_of_every_kind_of_prompt(place: Path):
    card = made_grid(place)
    found = card.scores.by_prompt
    assert [one.kind for one in found] == ["reward", "goal", "demonstration"]
    assert {one.unit for one in found} == {"fraction of optimal"}
    assert all(one.random == 0 and one.best_constant is not None for one in found)
    assert set(card.scores.fraction_of_optimal) >= {"boxes", "goals"}
    assert "10 x 10 cells" in card.cannot[-1]
    run = visr.load(place / "grid.safetensors")
    reward = run.evaluate_families()["boxes_gpi"]
    assert card.scores.fraction_of_optimal["boxes_gpi"] == pytest.approx(reward, abs=0.001)


def test_the_card_of_a_vector_environment_has_returns_beside_the_baselines(place: Path):
    card = made(place, "cart", "CartPole-v1", "replay-vectors")
    found = card.scores.by_prompt
    assert {one.kind for one in found} == {"reward", "goal", "demonstration"}
    assert found[0].prompt == "the environment's own reward"
    assert found[0].best_constant is not None
    assert found[0].best_constant < found[0].random  # repeating an action lets the pole fall sooner
    assert card.recipe[0].startswith("visr pretrain CartPole-v1 --preset replay-vectors ")
    assert card.recipe[1] == "make model RUN=runs/cart NAME=cart"


def test_the_card_of_a_minatar_game_says_what_it_cannot_do(place: Path):
    pytest.importorskip("minatar")
    card = made(place, "freeway", "MinAtar/Freeway-v1", "replay-minatar")
    assert {one.kind for one in card.scores.by_prompt} >= {"reward"}
    assert any(words.startswith("A goal: The features of this agent") for words in card.cannot)
    assert any(words.startswith("Observations are images") for words in card.cannot)
    assert card.precision == "int8"  # in float16 it takes about 2 MB
    model, again = visr.load(place / "freeway.safetensors"), visr.load(place / "runs/freeway")
    packed, weights = model.visr.packed(), again.visr.packed()
    for name, weight in weights.items():
        difference = (packed[name] - weight).abs().max()
        assert difference <= 0.01 * weight.abs().max(), name


def test_the_card_of_minigrid_counts_the_states_that_goal_prompts_reach(place: Path):
    pytest.importorskip("minigrid")
    card = made(place, "doorkey", "visr/MiniGrid-DoorKey-5x5-v0", "replay-minigrid")
    found = card.scores.by_prompt
    assert found[0].kind == "goal"
    assert found[0].unit == "share reached within twice the shortest path"
    assert 0 <= found[0].random <= 1
    assert found[0].standard_error is not None
    assert card.recipe[0].startswith("visr pretrain visr/MiniGrid-DoorKey-5x5-v0 --preset replay-m")


def test_every_kind_of_environment_gets_a_small_film(place: Path):
    made_grid(place)  # the other tests may have run in another process
    films = sorted(place.glob("*.gif"))
    assert films
    for film in films:
        assert film.stat().st_size < 300_000
        with Image.open(film) as picture:
            assert picture.n_frames > 3  # pyright: ignore
            assert picture.width == 240


def test_a_file_with_an_event_that_does_not_exist_is_refused(place: Path):
    pytest.importorskip("minatar")
    made(place, "freeway", "MinAtar/Freeway-v1", "replay-minatar")
    run = visr.load(place / "freeway.safetensors")
    tensors = {name: tensor.clone() for name, tensor in run.visr.packed().items()}
    with pytest.raises(ValueError, match="an event does not exist"):
        run.visr.load_packed(tensors | {"chi.event": tensors["chi.event"] + 10**6})
    plane = "psi.observation.agent_plane"
    with pytest.raises(ValueError, match="the agent's plane does not exist"):
        run.visr.load_packed(tensors | {plane: tensors[plane] + 99})
