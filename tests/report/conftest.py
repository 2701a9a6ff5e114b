"""Figures of the report's tests are drawn at low resolution."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from visr.report import style

DPI = 40


@pytest.fixture(autouse=True, scope="package")
def low_resolution() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "DPI", DPI)
        yield
