"""Environments of the user's own: modules, files, and consent to run their code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import visr
from visr import envs
from visr.cli import main
from visr.config import RunConfig
from visr.envs import modules
from visr.errors import UserError
from visr.storage import consent

MEADOW = """
import gymnasium, numpy
class Meadow(gymnasium.Env):
    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}
    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)
    def __init__(self, render_mode=None):
        self.render_mode = render_mode
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}
    def step(self, action):
        self.place = (self.place + action) % 4
        return self.place, float(self.place == 3), False, False, {}
    def render(self):
        return numpy.full((8, 8, 3), 60 * self.place, dtype=numpy.uint8)
class Other:
    pass
gymnasium.register("Meadow-v0", Meadow, max_episode_steps=20)
"""
TINY: dict[str, Any] = {
    "num_steps": 320, "num_envs": 4, "batch_size": 2, "unroll_length": 8, "hidden_sizes": (8, 8),
    "recorded_steps": 400,
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory with meadow_of_mine.py, and an empty configuration directory."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "meadow_of_mine.py").write_text(MEADOW)
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setenv("VISR_TRUST", "")
    gymnasium.registry.pop("Meadow-v0", None)  # of another module's tests in this process
    yield tmp_path / "work"
    forget()


def forget() -> None:
    """As in a new process: nothing is imported, and nothing is trusted that is not on the disk."""
    os.environ["VISR_TRUST"] = ""
    gymnasium.registry.pop("Meadow-v0", None)
    for name in [name for name in sys.modules if name.startswith("meadow_of_mine")]:
        del sys.modules[name]
    sys.path[:] = [place for place in sys.path if "work" not in Path(place).parts]


def make(env: str) -> str:
    """The name under which Gymnasium knows the environment that was made."""
    made = envs.make_vec(RunConfig(env=env), 2, seed=0)
    made.close()
    return made.inner.spec.id  # pyright: ignore[reportAttributeAccessIssue]


def test_a_run_trained_here_opens_later_without_being_trusted_again(here: Path, tmp_path: Path):
    visr.pretrain("meadow_of_mine:Meadow-v0", out="run", **TINY)
    command = [sys.executable, "-m", "visr", "play", "run", "--max-steps", "3"]
    others = {k: v for k, v in os.environ.items() if k != "VISR_TRUST"}
    opened = subprocess.run(command, env=others, capture_output=True, text=True)
    assert opened.returncode == 0, opened.stderr
    others["XDG_CONFIG_HOME"] = str(tmp_path / "of another user")
    refused = subprocess.run(command, env=others, capture_output=True, text=True)
    assert refused.returncode == 2
    assert "VISR_TRUST=meadow_of_mine" in refused.stderr


def test_a_class_in_a_file_trains_infers_plays_and_is_filmed(here: Path):
    run = visr.pretrain("meadow_of_mine.py:Meadow", **TINY)
    assert str(run.path) == "runs/meadow_of_mine-meadow-1"
    assert main(["infer", str(run.path), "--reward", "state == 3", "--name", "three"]) == 0
    assert (
        main(["play", str(run.path), "--task", "three", "--max-steps", "9", "--video", "a.gif"])
        == 0
    )
    assert Path("a.gif").stat().st_size > 100


@pytest.mark.parametrize("name", ["Meadow", "Meadow-v0"])
@pytest.mark.parametrize("module", ["meadow_of_mine.py", "meadow_of_mine", "./meadow_of_mine.py"])
def test_code_that_was_trained_with_is_found_from_other_directories(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
):
    modules.trust(f"{module}:{name}", remember=True)
    forget()
    monkeypatch.chdir(tmp_path)
    assert make(f"{module}:{name}") == name
    assert os.environ["VISR_TRUST"] == module  # for child processes


@pytest.mark.parametrize("module", ["meadow_of_mine.py", "meadow_of_mine"])
def test_consent_does_not_extend_to_another_file_of_that_name(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
):
    modules.trust(f"{module}:Meadow", remember=True)
    forget()
    (tmp_path / "strange").mkdir()
    (tmp_path / "strange" / "meadow_of_mine.py").write_text("raise SystemExit('code was run')")
    monkeypatch.chdir(tmp_path / "strange")
    with pytest.raises(UserError, match="which runs its code; if you trust it, set VISR_TRUST="):
        make(f"{module}:Meadow")


def test_checking_an_environment_is_no_lasting_consent(here: Path):
    assert main(["doctor", "meadow_of_mine.py:Meadow", "--steps", "50"]) == 0
    forget()
    with pytest.raises(UserError, match=r"would run the file 'meadow_of_mine.py'"):
        make("meadow_of_mine.py:Meadow")


def test_only_environments_are_made_of_a_file(here: Path):
    modules.trust("meadow_of_mine.py:Meadow")
    for name in ("Other", "numpy", "NoSuch", "__doc__"):
        with pytest.raises(UserError, match=f"no environment class '{name}' in .*it has Meadow"):
            make(f"meadow_of_mine.py:{name}")


def test_a_missing_or_broken_file_is_one_sentence(here: Path):
    with pytest.raises(UserError, match=r"needs the file 'nowhere.py', which is not here"):
        make("nowhere.py:Meadow")
    (here / "broken.py").write_text("1 / 0")
    modules.trust("broken.py:Meadow")
    with pytest.raises(UserError, match=r"could not be imported .ZeroDivisionError"):
        make("broken.py:Meadow")


def test_two_files_of_one_name_are_not_confused(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    modules.trust("meadow_of_mine.py:Meadow", remember=True)
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "meadow_of_mine.py").write_text(MEADOW)
    monkeypatch.chdir(tmp_path / "second")
    modules.trust("meadow_of_mine.py:Meadow", remember=True)
    forget()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="is not here"):
        make("meadow_of_mine.py:Meadow")


def test_damaged_consents_are_one_sentence(here: Path):
    modules.trust("meadow_of_mine.py:Meadow", remember=True)
    consent.path().write_text('{"format": 1, "trusted": [{"module": 3}]}')
    forget()
    with pytest.raises(UserError, match=r"trusted.json is damaged .module is not text.; remove it"):
        make("meadow_of_mine.py:Meadow")


def test_training_goes_on_where_consent_cannot_be_kept(
    here: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "configuration").write_text("a file in the place of the directory")
    modules.trust("meadow_of_mine.py:Meadow", remember=True)
    assert "consent to run meadow_of_mine.py is not kept" in caplog.text
    assert make("meadow_of_mine.py:Meadow") == "Meadow"


def test_an_unknown_id_hints_at_modules_and_files():
    with pytest.raises(UserError, match=r"your own are my_module:Id-v0 or my_file.py:Class"):
        make("NoSuchThing-v0")


def test_the_advice_of_doctor_trains_with_the_settings_that_it_checked(
    capsys: pytest.CaptureFixture[str],
):
    assert main(["doctor", "Pendulum-v1", "--discretise", "3", "--steps", "50"]) == 0
    assert (
        "Next: visr pretrain Pendulum-v1 --discretise 3 --algorithm replay\n"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("env", ["tempfile:mkdtemp", "visr.cli:main", "visr.startup_checks:check"])
def test_functions_of_modules_that_visr_imports_are_not_called(
    env: str, here: Path, monkeypatch: pytest.MonkeyPatch
):
    """A stranger's run may name them, and nobody consented."""
    module, _, name = env.partition(":")

    def call() -> None:
        raise AssertionError("called")

    monkeypatch.setattr(sys.modules[module], name, call)
    with pytest.raises(UserError, match="would call a function of the Python module"):
        make(env)


def test_a_function_of_a_module_that_the_user_named_is_called(here: Path):
    (here / "meadow_of_mine.py").write_text(MEADOW + "def meadow():\n    return Meadow()\n")
    os.environ["VISR_TRUST"] = "meadow_of_mine"
    assert make("meadow_of_mine:meadow") == "meadow"
