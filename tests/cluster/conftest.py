"""These tests need Ray."""

from __future__ import annotations

import importlib.util

import pytest

if not importlib.util.find_spec("ray"):
    pytest.skip("needs visr[cluster]", allow_module_level=True)
