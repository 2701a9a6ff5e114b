"""What a file promises is weighed before memory is taken: a process with little to spare reads it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.bad_input.cases import TABLE

CASES = {case.id: case for cases in TABLE.values() for case in cases}
GREEDY = (
    "a million by a million cells",
    "a billion features",
    "a billion units",
    "a million by a million units",
    "a billion worlds",
    "a terabyte of unrolls",
    "checkpoint that promises",
    "checkpoint that is hollow",
    "dataset that promises",
    "dataset of zeros of zeros",
    "reward that promises",
)
_MOST = 256 * 2**20
"""Bytes that answering may add to what importing took; a modest case adds some 30 MB."""

PROGRAM = """
import os, resource, shlex, shutil, sys
from pathlib import Path
from visr.cli import main
from tests.robustness.bad_input.cases import TABLE
import visr.api, visr.pretraining, visr.report

trained = Path(sys.argv[1])
cases = {case.id: case for group in TABLE.values() for case in group}
for number, name in enumerate(sys.argv[3:]):
    place = Path(sys.argv[2], str(number))
    place.mkdir()
    os.chdir(place)
    shutil.copytree(trained, place / "run")
    if cases[name].given is not None:
        cases[name].given(place)
    words = shlex.split(cases[name].line)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MOST, resource.RLIM_INFINITY))
    code = main(words)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(name, code, sep=": ")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and /proc are Linux's")
def test_greedy_files_are_refused_within_256_megabytes(trained: Path, tmp_path: Path):
    assert set(GREEDY) <= set(CASES)
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROGRAM.replace("MOST", str(_MOST)),
            str(trained),
            str(tmp_path),
            *GREEDY,
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == [f"{name}: 2" for name in GREEDY], done.stderr
    sentences = done.stderr.splitlines()
    assert len(sentences) == len(GREEDY), done.stderr
    assert not any("not enough memory" in sentence for sentence in sentences)
