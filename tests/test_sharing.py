"""`visr push` and `visr pull`, against a local stand-in for the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import visr
from tests.hub_stub import HubStub
from visr.cli import main

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the library's own
constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStub]:
    """A hub with no repositories; the working directory is empty."""
    stub = HubStub()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_ENDPOINT", stub.url)
    monkeypatch.setenv("HF_TOKEN", "hf_of_the_test")
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_TELEMETRY", True)
    yield stub
    stub.close()


def test_what_was_pushed_is_pulled_and_acts_the_same(
    hub: HubStub, trained: Path, capsys: pytest.CaptureFixture[str]
):
    assert (
        main(["push", str(trained), "me/small-grid", "--about", "A small one.", "--private"]) == 0
    )
    assert capsys.readouterr().out.strip() == f"{hub.url}/me/small-grid"
    assert sorted(hub.repos["me/small-grid"]) == ["README.md", "model.safetensors"]
    assert hub.private == {"me/small-grid": True}
    assert "Bearer hf_of_the_test" in hub.tokens
    page = hub.repos["me/small-grid"]["README.md"].decode()
    assert page.startswith("---\nlibrary_name: visr\n")
    assert "A small one." in page
    assert "visr pretrain visr/Grid-v0 --preset paper" in page
    assert main(["pull", "me/small-grid", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["file"], shown["name"]) == ("runs/small-grid.safetensors", "small-grid")
    states = np.arange(100)
    pulled = visr.load("runs/small-grid.safetensors")
    np.testing.assert_array_equal(pulled.features(states), visr.load(trained).features(states))


def test_pushing_again_replaces_the_model(hub: HubStub, trained: Path):
    run = visr.load(trained)
    visr.push(run, "me/again", about="The first.")
    visr.push(run, "me/again", about="The second.")
    visr.pull("me/again", "here.safetensors")
    assert visr.load("here.safetensors").model.card.about == "The second."  # pyright: ignore


def test_a_repository_without_an_owner_is_the_users_own(hub: HubStub, trained: Path):
    assert visr.push(visr.load(trained), "alone") == f"{hub.url}/me/alone"
    assert sorted(hub.repos["me/alone"]) == ["README.md", "model.safetensors"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["pull", "me/nothing"], 'Cannot pull from "me/nothing": there is no such repository'),
        (["pull", "me/empty"], "it holds no model.safetensors"),
        (["pull", "me/strange"], "me/strange: model.safetensors is not a packed model"),
        (["pull", "me/../../x"], 'Cannot pull from "me/../../x": '),
        (["pull", "me/empty", "kept.txt"], "kept.txt exists already; name another file"),
        (["push", "nowhere", "me/x"], "There is no run at nowhere"),
    ],
)
def test_a_mistake_is_one_sentence_and_writes_nothing(
    hub: HubStub, capsys: pytest.CaptureFixture[str], words: list[str], names: str
):
    hub.repos |= {"me/empty": {}, "me/strange": {"model.safetensors": b"something else"}}
    Path("kept.txt").write_text("mine")
    assert main(words) == 2
    printed = capsys.readouterr()
    assert names in printed.err
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert [path.name for path in Path().rglob("*")] == ["kept.txt"]


def test_a_name_that_is_no_repository_is_refused_before_anything_is_sent(
    hub: HubStub, trained: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["push", str(trained), "a/b/c"]) == 2
    assert 'Cannot push to "a/b/c"' in capsys.readouterr().err
    assert hub.tokens == set()


def test_a_hub_that_does_not_answer_is_one_sentence(
    hub: HubStub, capsys: pytest.CaptureFixture[str]
):
    hub.close()
    assert main(["pull", "me/x"]) == 2
    assert 'Cannot pull from "me/x"' in capsys.readouterr().err
