"""The progress on stderr."""

from __future__ import annotations

import io
import os
import signal
import sys
from dataclasses import replace

import pytest
from rich.console import Console

from visr.training import progress
from visr.training.driver import Status, stop_requests


def status(num_steps: int, note: str = "", trouble: str = "") -> Status:
    metrics = {"intrinsic_reward": 0.25}
    return Status(num_steps, 1_000, metrics, {}, note=note, trouble=trouble)


def test_without_a_terminal_a_line_is_written_every_ten_seconds(
    capsys: pytest.CaptureFixture[str],
):
    times = iter([0.0, 1.0, 5.0, 11.0, 12.0, 21.5])
    observe = progress.progress_lines("pre-training", lambda: next(times))
    for num_steps in (100, 200, 300, 400, 600):
        observe(status(num_steps))
    first, second = capsys.readouterr().err.splitlines()
    # 200 steps in the 10 seconds since the first report: 20 steps/s, 700 left
    assert first == "pre-training: 30%, 300 of 1,000 steps, 20 steps/s, 0:00:35 left, phi.w 0.250"
    assert second.startswith("pre-training: 60%, 600 of 1,000 steps")


def test_time_left_follows_the_share_of_the_work_where_steps_do_not_measure_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    times = iter([0.0, 1.0, 11.0])
    observe = progress.progress_lines("pre-training", lambda: next(times))
    for num_steps, share in ((900, 0.0), (920, 0.2)):
        observe(replace(status(num_steps), share=share))
    # a fifth of the work in 10 seconds: 40 seconds for the rest, though 920 of 1,000 steps are made
    line = "pre-training: 20% of the updates, 920 of 1,000 steps, 0:00:40 left, phi.w 0.250"
    assert capsys.readouterr().err.splitlines() == [line]


def test_a_line_names_work_without_steps(capsys: pytest.CaptureFixture[str]):
    times = iter([0.0, 10.0])
    progress.progress_lines("pre-training", lambda: next(times))(status(1_000, "recording: 40%"))
    said = capsys.readouterr().err
    assert said == "pre-training: 100%, 1,000 of 1,000 steps, recording: 40%, phi.w 0.250\n"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120])
def test_a_bar_of_any_width_shows_percentage_and_time_left_on_one_line(width: int):
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    with progress.progress_bar("pre-training", console) as observe:
        observe(
            status(450, note="a note that is too long for narrow terminals", trouble="psi is dead")
        )
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().replace("\r", "\n").split("\n")
    bars = [line for line in lines if "%" in line]
    assert bars
    assert all("45%" in line and "-:--:--" in line for line in bars[-1:])
    assert "psi" in bars[-1]
    assert ("pre-training" in bars[-1]) == (width >= 80)


def test_the_first_ctrl_c_says_on_a_terminal_that_the_round_is_finished(
    monkeypatch: pytest.MonkeyPatch,
):
    reader, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stderr, os.fdopen(reader, "rb", buffering=0) as shown:
        monkeypatch.setattr(sys, "stderr", stderr)
        with stop_requests() as stop:
            signal.raise_signal(signal.SIGINT)
            assert stop == [signal.SIGINT]
            assert b"a second Ctrl-C stops at once, without saving" in shown.read(200)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)


def test_a_job_of_counted_steps_says_so_after_two_seconds_and_every_ten(
    capsys: pytest.CaptureFixture[str],
):
    times = iter([0.0, 1.0, 3.0, 9.0, 13.5, 14.0])
    note = progress.counted_steps("recording a sample", 1_000, lambda: next(times))
    for num_steps in (100, 250, 500, 900, 1_000):
        note(num_steps)
    assert capsys.readouterr().err.splitlines() == [
        "recording a sample: 25% of 1,000 steps, 0:00:09 left",
        "recording a sample: 90% of 1,000 steps, 0:00:01 left",
    ]
