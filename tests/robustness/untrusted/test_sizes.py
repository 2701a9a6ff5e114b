"""The size that a file or an option asks for is checked before memory is allocated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.robustness.bad_input.cases import CASES

GREEDY = [
    case.id
    for case in CASES
    if "choose smaller" in case.offers
    or any(word in case.file for word in ("10^9", "10^12", "claim", "declare", "without the data"))
]
"""Files and options that ask for gigabytes."""
_MOST = 256 * 2**20
"""Bytes that a command may allocate after its imports; a small case needs about 30 MB."""

PROGRAM = """
import os, resource, shlex, shutil, sys
from pathlib import Path
from visr.cli import main
from tests.robustness.bad_input.cases import CASES
import visr.api, visr.pretraining, visr.report

trained = Path(sys.argv[1])
cases = {case.id: case for case in CASES}
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
    assert len(GREEDY) >= 14
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
