"""Short summaries of results: one line for `repr`, a small table for notebooks."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod

from visr.errors import printable


class Summary(ABC):
    """A class whose `summary` is shown by `repr` and by notebooks."""

    @abstractmethod
    def summary(self) -> dict[str, str]:
        """What to show, by name; the first entry is the title."""

    def __repr__(self) -> str:
        """One line: the class and its numbers."""
        first, *others = self.summary().items()
        parts = [repr(first[1]), *(f"{name} {value}" for name, value in others)]
        return printable(f"<{type(self).__name__} {', '.join(parts)}>")

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        (_, title), *rows = self.summary().items()
        lines = [
            f"<tr><td style='text-align:left'>{html.escape(key)}</td>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for key, value in rows
        ]
        heading = html.escape(f"{type(self).__name__}: {title}")
        return f"<table><caption>{heading}</caption>{''.join(lines)}</table>"
