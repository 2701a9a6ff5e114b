"""Jobs as Ray tasks: all of them run, failures are told, a killed process runs its job again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_session")]


def work(job: tuple[str, str]) -> int:
    """Fails, dies once, or returns its process id, as the job says."""
    name, directory = job
    if name == "fails":
        raise ValueError("no such\n  game")
    marker = Path(directory) / "died"
    if name == "dies once" and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


@pytest.fixture(autouse=True)
def _work_travels() -> Iterator[None]:
    """Workers do not know this file, so its function is sent along with the jobs."""
    from ray import cloudpickle

    here = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(here)
    yield
    cloudpickle.unregister_pickle_by_value(here)


def test_every_job_runs_even_if_others_fail(tmp_path: Path):
    from visr.cluster import session

    wanted = [(name, str(tmp_path)) for name in ("works", "fails", "dies once", "works too")]
    outcomes = {outcome.job[0]: outcome for outcome in session.run_all(wanted, work, num_cpus=2)}
    assert outcomes.keys() == {"works", "fails", "dies once", "works too"}
    assert outcomes["fails"].error == "ValueError: no such game"
    assert outcomes["fails"].result is None
    for name in ("works", "dies once", "works too"):
        assert outcomes[name].error == ""
        assert outcomes[name].result not in (None, os.getpid())
    assert (tmp_path / "died").exists()
