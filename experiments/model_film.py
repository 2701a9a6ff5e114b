"""A film of a model: its examples of every kind of prompt in turn, each from the start of an episode."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from pathlib import Path

from model_card import Asked
from PIL import Image, ImageDraw, ImageFont

import visr
from visr.play import rendering
from visr.play.session import Session

SIDE, BELOW, RATE = 240, 58, 110
"""Width of the film, height of its caption, milliseconds of a frame."""
WRAP = 42
"""Characters of a line of the caption."""
CELL_STEPS, GYM_STEPS, STRIDE = 50, 150, 3
"""Steps of one prompt where cells are drawn, and where an environment draws itself: every third one."""


def film(run: visr.Run, examples: list[Asked], target: Path) -> Path:
    """An animated GIF: the prompts in turn, each from the start of an episode."""
    frames = [frame for one in examples for frame in _frames(run, one)]
    sample = Image.new("RGB", (frames[0].width, frames[0].height * 6))
    for i in range(6):  # one palette for all frames, so that no colour changes
        sample.paste(frames[(len(frames) - 1) * i // 5], (0, frames[0].height * i))
    palette = sample.quantize(48)
    first, *others = (f.quantize(palette=palette, dither=Image.Dither.NONE) for f in frames)
    content = io.BytesIO()
    first.save(content, "GIF", save_all=True, append_images=others, duration=RATE, loop=0)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content.getvalue())
    return target


def _frames(run: visr.Run, one: Asked) -> Iterator[Image.Image]:
    """One episode, with what was asked for and the return so far below each picture."""
    screen = rendering.screen(run.config, one.task.reward)
    asked = one.reward or run.asked_reward(one.task)
    session = Session(run.agent, run.config, epsilon=0.0, seed=3, screen=screen, asked=asked)
    session.actor.pursue(one.task.w)
    session.begin(3)
    words = f"{one.kind}: {one.words.replace('`', '')}"
    is_slow = isinstance(screen, rendering.RenderedGym)
    most, stride = (GYM_STEPS, STRIDE) if is_slow else (CELL_STEPS, 1)
    while True:
        assert session.picture is not None
        is_last = session.is_over or session.num_steps >= most
        if session.num_steps % stride and not is_last:
            session.step()
            continue
        picture = rendering.enlarged(session.picture, screen.scale)
        shown = f"step {session.num_steps}, return {session.asked_return:.4g}"
        yield _captioned(Image.fromarray(picture), words, shown)
        if is_last:
            break
        session.step()
    session.close()


def _captioned(picture: Image.Image, *lines: str) -> Image.Image:
    height = round(picture.height * SIDE / picture.width)
    frame = Image.new("RGB", (SIDE, height + BELOW), "#ffffff")
    frame.paste(picture.resize((SIDE, height), Image.Resampling.LANCZOS))
    draw, font = ImageDraw.Draw(frame), ImageFont.load_default(size=12)
    wrapped = [part for line in lines for part in textwrap.wrap(line, WRAP)]
    for number, line in enumerate(wrapped[:3]):
        draw.text((4, height + 4 + 17 * number), line, fill="#1d2733", font=font)
    return frame
