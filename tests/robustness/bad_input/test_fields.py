"""Every numeric setting refuses wrong values, on the command line and in Python."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from tests.robustness.bad_input.case import assert_one_sentence
from visr import config as configuration
from visr.cli import main
from visr.config import FinetuneConfig, RunConfig
from visr.errors import UserError

FIELDS = [
    field.name
    for section in configuration.SECTIONS
    for field in dataclasses.fields(getattr(RunConfig(), section))
    if type(field.default) in (int, float)
]
FINETUNE = [f.name for f in dataclasses.fields(FinetuneConfig) if type(f.default) in (int, float)]
WORDS = ("nan", "inf", "-inf", "-1", "1e30", "9" * 400, "x", "", "1\n2", "0x10", "--", "1,5")
VALUES: tuple[Any, ...] = (
    *(math.nan, math.inf, -math.inf, -1, -0.5, 10**19, 10**400, 10**5000, 1e300),
    *("1", "", b"1", None, True, [1], (), {}, object(), 1j, "x" * 100_000),
)


@pytest.mark.parametrize(
    ("field", "word"), [(field, WORDS[i % len(WORDS)]) for i, field in enumerate(FIELDS)]
)
def test_every_option_refuses_a_wrong_number(
    field: str, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    option = f"--{field.replace('_', '-')}"
    out = tmp_path / "out"
    assert main(["pretrain", "--preset", "smoke", "--out", str(out), f"{option}={word}"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert_one_sentence(said.err)
    assert field in said.err or option in said.err
    assert not out.exists()


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_refuses_wrong_values_in_python(field: str):
    for value in VALUES:
        with pytest.raises(UserError, match=field) as refused:
            configuration.replace(RunConfig(), **{field: value})
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize("field", FINETUNE)
def test_every_setting_of_fine_tuning_refuses_wrong_values(field: str):
    for value in VALUES:
        with pytest.raises(UserError, match=field) as refused:
            configuration.finetune_settings({field: value})
        assert len(str(refused.value)) < 400


def test_values_whose_product_needs_too_much_memory_are_refused():
    for fields in (
        {"hidden_sizes": (10**6, 10**6)},
        {"hidden_sizes": (300,), "height": 1000, "width": 1000},
        {"num_features": 20_000},
        {"num_features": 10_000, "head_size": 10**6},
        {"curiosity_size": 20_000},
        {"num_envs": 10**6, "unroll_length": 1000},
        {"batch_size": 10**6, "unroll_length": 1000},
        {"num_envs": 10**5, "gpi_samples": 1000},
        {"height": 10**4, "width": 10**3},
    ):
        with pytest.raises(UserError, match=r"would take .* choose smaller|height times width"):
            configuration.replace(RunConfig(), **fields)
    paper = configuration.replace(RunConfig(), env="ALE/Pong-v5", num_envs=512, batch_size=512)
    assert configuration.replace(paper, height=10**6, width=10**6)  # a world that Pong ignores
