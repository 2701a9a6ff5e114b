"""Draw docs/images/visr_model.svg, after Figure 1 of the paper: python docs/images/visr_model.py"""

from __future__ import annotations

from pathlib import Path

INK, MUTED, PHI, PSI, W = "#1d2733", "#5b6672", "#2f6fb3", "#c05a1c", "#4a8a3c"
LINES: list[str] = []


def box(x: int, y: int, width: int, height: int, colour: str, *texts: str) -> None:
    """A rounded box with centred lines of text; the first is bold."""
    LINES.append(
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{colour}" '
        f'fill-opacity="0.12" stroke="{colour}" stroke-width="1.6"/>'
    )
    middle = y + height / 2 - 9 * (len(texts) - 1)
    for i, text in enumerate(texts):
        weight = ' font-weight="600"' if i == 0 else ""
        size = 16 if i == 0 else 13
        LINES.append(
            f'<text x="{x + width / 2}" y="{middle + 5 + 19 * i}" font-size="{size}" fill="{INK}" '
            f'text-anchor="middle"{weight}>{text}</text>'
        )


def arrow(x1: int, y1: int, x2: int, y2: int, colour: str = INK, dashed: bool = False) -> None:
    """A straight line with a head at its end."""
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    LINES.append(
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="1.8"{dash} '
        f'marker-end="url(#head)"/>'
    )


def words(x: int, y: int, text: str, colour: str = MUTED, anchor: str = "middle") -> None:
    """A line of small text."""
    LINES.append(
        f'<text x="{x}" y="{y}" font-size="13" fill="{colour}" text-anchor="{anchor}">{text}</text>'
    )


def draw() -> str:
    """The whole picture."""
    box(20, 160, 120, 64, MUTED, "state s", "observation")
    box(220, 40, 160, 64, PHI, "network φ", "features, |φ| = 1")
    box(220, 280, 160, 64, PSI, "network ψ", "one vector per action")
    box(470, 40, 170, 64, PHI, "φ(s) · w", "log q(w | s) + const")
    box(470, 280, 170, 64, PSI, "ψ(s, a, w) · w", "action values Q(s, a)")
    box(470, 160, 170, 64, W, "task w", "random, |w| = 1")
    box(720, 280, 130, 64, INK, "action a", "best or random")
    arrow(140, 175, 216, 95)
    arrow(140, 210, 216, 290)
    arrow(380, 72, 466, 72, PHI)
    arrow(380, 312, 466, 312, PSI)
    arrow(555, 160, 555, 108, W)
    arrow(555, 224, 555, 276, W)
    arrow(470, 205, 384, 285, W)
    arrow(300, 104, 300, 276, PHI, dashed=True)
    arrow(640, 312, 716, 312)
    words(290, 196, "ψ sums φ", PHI, "end")
    words(660, 66, "This trains φ:", PHI, "start")
    words(660, 84, "make w likely given s.", PHI, "start")
    words(555, 366, "This trains ψ: Q-learning with φ in the place of the reward.", PSI)
    LINES.append(
        f'<path d="M 785 344 L 785 400 L 80 400 L 80 228" fill="none" stroke="{MUTED}" '
        f'stroke-width="1.8" marker-end="url(#head)"/>'
    )
    words(430, 418, "the environment gives the next state", MUTED)
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 870 440" role="img" '
        'font-family="system-ui, sans-serif"><title>The VISR model</title>'
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{INK}"/></marker></defs>'
        '<rect width="870" height="440" fill="#ffffff"/>'
    )
    return "\n".join([head, *LINES, "</svg>"]) + "\n"


if __name__ == "__main__":
    target = Path(__file__).with_suffix(".svg")
    target.write_text(draw())
    print(target)
