"""Settings on the command line: files, number words, several seeds, and the first screen of help."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.test_cli import visr
from visr import config as configuration
from visr.config import file, presets
from visr.config.load import whole_number
from visr.errors import UserError

SMALL = ("--num-steps", "2560", "--recorded-steps", "0", "--log-every", "2560")


@pytest.mark.parametrize(
    ("text", "number"),
    [("20000", 20_000), ("1_000", 1_000), ("1e5", 100_000), ("100k", 100_000), ("2M", 2_000_000)],
)
def test_number_words_are_whole_numbers(text: str, number: int):
    assert whole_number(text) == number
    assert whole_number("2.5M") == 2_500_000


@pytest.mark.parametrize("text", ["", "k", "1.5", "1e-5", "10q", "nan", "0x10", "1e999999999"])
def test_other_words_are_no_numbers(text: str):
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(text)


def test_python_takes_floats_and_files_take_words_for_whole_numbers(tmp_path: Path):
    config = configuration.replace(presets.get("classic"), num_steps=1e5)
    assert config.training.num_steps == 100_000
    assert type(config.training.num_steps) is int
    (tmp_path / "a.toml").write_text('num_steps = "100k"\nnum_envs = 1e3')
    read = configuration.replace(config, **file.read(tmp_path / "a.toml"))
    assert (read.training.num_steps, read.training.num_envs) == (100_000, 1_000)


@pytest.mark.parametrize("num_steps", [34e3, np.int64(34_000)])
def test_updates_follow_any_spelling_of_the_steps(num_steps: object):
    base = presets.for_environment("CartPole-v1")
    shorter, whole = presets.for_steps(base, num_steps), presets.for_steps(base, 34_000)
    assert shorter == whole != base
    assert configuration.replace(base, num_steps=num_steps).training.num_steps == 34_000


def test_a_printed_config_is_read_back_unchanged(tmp_path: Path):
    config = configuration.replace(presets.get("classic"), env="CartPole-v1", num_features=7)
    path = tmp_path / "settings.toml"
    path.write_text(file.to_toml(config))
    assert configuration.replace(presets.get("grid"), **file.read(path)) == config
    content = {"format": 1, "config": configuration.to_dict(config), "checksum": "0"}
    (tmp_path / "config.json").write_text(json.dumps(content))
    assert file.read(tmp_path / "config.json") == file.read(path)


def test_flags_win_over_the_file(tmp_path: Path):
    path = tmp_path / "settings.toml"
    path.write_text('env = "CartPole-v1"\nnum_features = 7\n[training]\nseed = 3\n')
    answer = visr("pretrain", "--config", str(path), "--seed", "4", "--print-config")
    assert (answer.code, answer.err) == (0, "")
    (tmp_path / "printed.toml").write_text(answer.out)
    printed = file.read(tmp_path / "printed.toml")
    assert (printed["env"], printed["num_features"], printed["seed"]) == ("CartPole-v1", 7, 4)
    assert printed["num_stages"] == 3  # the environment's default


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("num_stepss = 3", "num_stepss"),
        ("num_steps = ", "not a file of settings"),
        ("num_steps = 0", "num_steps = 0"),
        ("num_steps = 1.5", "num_steps = 1.5"),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, content: str, words: str):
    path = tmp_path / "settings.toml"
    path.write_text(content)
    answer = visr("pretrain", "--config", str(path), "--out", str(tmp_path / "run"))
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_several_seeds_make_several_runs(tmp_path: Path):
    out = tmp_path / "runs"
    answer = visr(
        "pretrain", "CartPole-v1", *SMALL, "--seeds", "3", "5", "--out", str(out), "--json"
    )
    assert answer.code == 0, answer.err
    runs = json.loads(answer.out)["runs"]
    assert [Path(run["run"]).name for run in runs] == ["seed-3", "seed-5"]
    for run, seed in zip(runs, (3, 5), strict=True):
        config = json.loads((Path(run["run"]) / "config.json").read_text())
        assert config["config"]["training"]["seed"] == seed
    again = visr("pretrain", "CartPole-v1", *SMALL, "--seeds", "5", "--out", str(out))
    assert again.code == 2
    assert "seed-5" in again.err


def test_the_first_screen_of_help_has_the_defaults_of_the_environment():
    grid, pole = (visr("pretrain", *words, "--help").out for words in ((), ("CartPole-v1",)))
    assert "220,000" in grid
    assert "340,000" in pole
    assert len(pole.splitlines()) < 40
    assert "--help-all" in pole
    assert "visr pretrain CartPole-v1" in pole


def test_a_missing_argument_is_named_with_an_example():
    answer = visr("evaluate")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "needs RUN" in answer.err
    assert "visr evaluate runs/first" in answer.err


@pytest.mark.timeout(60)
def test_settings_that_would_take_much_memory_are_refused(tmp_path: Path):
    path = tmp_path / "settings.toml"
    path.write_text("a." * 200_000 + "a = 1\n")  # tomllib would take gigabytes
    with pytest.raises(UserError, match="a line has more than 100 dots"):
        file.read(path)
    path.write_text("x = " + "[" * 100_000)
    with pytest.raises(UserError, match="not a file of settings"):
        file.read(path)
    with path.open("r+b") as sparse:
        sparse.truncate(10**12)
    with pytest.raises(UserError, match="it is larger than 1,048,576 bytes"):
        file.read(path)
