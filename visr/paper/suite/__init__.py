"""Many runs as tables, figures and one HTML page."""

from __future__ import annotations

from visr.paper.suite.build import write

__all__ = ["write"]
