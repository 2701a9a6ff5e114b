"""A run as figures and one HTML page, drawn from its directory alone: no torch, no environment."""

from __future__ import annotations

from visr.report.publication import write

__all__ = ["write"]
