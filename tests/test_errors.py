"""Errors name flags at the command line and arguments in Python."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

import visr
from tests.test_cli import visr as command
from visr.errors import Stopped, UserError, command_line


@pytest.mark.parametrize(
    ("flags", "arguments"),
    [
        ("use --torso auto.", 'use torso="auto".'),
        ("raise --num-actor-groups too.", "raise num_actor_groups= too."),
        ("give --max-staleness 3 or more.", "give max_staleness=3 or more."),
        ("leave out --video.", "leave out video=."),
        ("use --reward env, or a file.", 'use reward="env", or a file.'),
        ("if you want that, add --accept-cost.", "if you want that, add accept_cost=True."),
        ("leave them out: --no-tasks.", "leave them out: tasks=False."),
        ('a goal: --goal "x0=0.5,x1=0".', 'a goal: goal="x0=0.5,x1=0".'),
        ("go on with `--resume runs/a`.", 'go on with `visr.resume("runs/a")`.'),
        ("see `visr finetune --resume runs/a`.", "see `visr finetune --resume runs/a`."),
        ("no flag: a -- b, -x.", "no flag: a -- b, -x."),
    ],
)
def test_a_sentence_names_flags_or_arguments(flags: str, arguments: str):
    error = UserError(flags)
    assert str(error) == arguments
    with command_line():
        assert str(error) == flags
    assert f"{error}" == arguments


def test_a_stopped_run_says_how_to_resume_it_in_python():
    assert 'visr.resume("runs/a")' in str(Stopped(2, 10, "visr pretrain --resume runs/a"))


def test_one_error_speaks_to_both(tmp_path: Path):
    with pytest.raises(UserError, match='torso="auto"'):
        visr.pretrain("CartPole-v1", torso="impala", out=tmp_path / "run")
    refused = command("pretrain", "CartPole-v1", "--torso", "impala", "--out", tmp_path / "run")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "--torso auto" in refused.err


def test_a_warning_has_two_forms_too(caplog: pytest.LogCaptureFixture, tmp_path: Path):
    steps = {"observations": np.zeros(41, np.int64), "actions": np.arange(40) % 2}
    np.savez(tmp_path / "data.npz", **steps)
    size = {"algorithm": "replay", "num_updates": 1, "buffer_steps": 20}
    with contextlib.suppress(UserError):
        visr.pretrain(dataset=tmp_path / "data.npz", out=tmp_path / "run", **size)
    assert "are used (buffer_steps=)." in caplog.text
