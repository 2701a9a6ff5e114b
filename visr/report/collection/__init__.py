"""Many runs as tables, figures and one HTML page, from their directories alone."""

from __future__ import annotations

from visr.report.collection.publication import write

__all__ = ["write"]
