"""One Ray session for all tests here: starting it takes as long as most of them."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

if not importlib.util.find_spec("ray"):
    pytest.skip("needs visr[cluster]", allow_module_level=True)


@pytest.fixture(scope="module")
def session() -> Iterator[None]:
    """Ray on this machine with more CPUs than it has, as nothing here needs one for itself."""
    import ray

    from visr.cluster import session

    session.start(num_cpus=8)
    yield
    ray.shutdown()
