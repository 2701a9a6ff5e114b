"""docs/paper_map.md names functions that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "paper_map.md"
NAMES = sorted(set(re.findall(r"`(visr(?:\.\w+)+)`", PAGE.read_text())))


def resolve(name: str) -> Any:
    """The module, class, function or field of that name."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AttributeError(name)


def test_every_name_in_the_paper_map_exists():
    assert len(NAMES) > 40
    for name in NAMES:
        resolve(name)
