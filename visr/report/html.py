"""HTML as strings, for visr.paper.suite.page until it uses the templates."""

from __future__ import annotations

import base64
import html
import struct
import unicodedata

from visr.report.figures import Picture

_INVISIBLE = {"Cc", "Cf", "Cs"}  # controls, formats (as: write from right to left), lone surrogates


HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{css}</style>
</head>
<body>
<main>
"""


def text(words: object) -> str:
    """Anything as text that cannot become markup, and shows all there is to it."""
    shown = (" " if c.isspace() else c for c in str(words))
    plain = "".join("\ufffd" if unicodedata.category(c) in _INVISIBLE else c for c in shown)
    return html.escape(plain, quote=True)


def section(title: str, *parts: str) -> str:
    """A heading and what belongs to it."""
    return f"<section>\n<h2>{text(title)}</h2>\n{''.join(parts)}</section>\n"


def figure(picture: Picture, wide: bool = False) -> str:
    """A picture inside the page; wide ones scroll on a narrow screen instead of shrinking."""
    width, height = struct.unpack(">II", picture.png[16:24])  # of the PNG's first chunk
    data = base64.b64encode(picture.png).decode()
    return (
        f'<figure><div class="frame{" wide" if wide else ""}"><img src="data:image/png;base64,{data}" '
        f'alt="{text(picture.alt)}" width="{width // 2}" height="{height // 2}"></div>\n'
        f"<figcaption>{text(picture.caption)}</figcaption></figure>\n"
    )


def note(words: str, command: str) -> str:
    """What is missing, and the command that makes it."""
    return f'<p class="note">{text(words)} <code>{text(command)}</code></p>\n'


def table(columns: dict[str, bool], rows: list[list[str]]) -> str:
    """Rows of finished HTML under column names; True sets a column flush right, as numbers are."""
    kinds = [' class="number"' if is_number else "" for is_number in columns.values()]
    head = "".join(
        f'<th scope="col"{k}>{text(c)}</th>' for k, c in zip(kinds, columns, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{k}>{cell}</td>' for k, cell in zip(kinds, row, strict=True))}</tr>\n"
        for row in rows
    )
    return (
        f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}</tbody></table></div>\n"
    )


def commands(lines: list[str]) -> str:
    """Command lines that break between words, never at the hyphen of a flag."""
    block = "\n".join(f'<span class="line">{_unbroken(line)}</span>' for line in lines)
    return f"<pre><code>{block}</code></pre>\n"


def _unbroken(line: str) -> str:
    return " ".join(f"<span>{text(word)}</span>" for word in line.split(" "))
