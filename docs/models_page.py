"""docs/results/models.md from the cards of the packed models; see results_pages.py."""

from __future__ import annotations

from page_parts import DASH, NOTE, PLACE, joined, table

from visr.storage import packed_models

FIRST_MODELS = ("grid", "four-rooms", "cartpole", "acrobot", "mountaincar")


def models_page() -> str:
    names = packed_models.names()
    names.sort(key=lambda n: (FIRST_MODELS.index(n) if n in FIRST_MODELS else 9, n == "grid-visr"))
    cards = [packed_models.open_model(f"{packed_models.PREFIX}{name}").card for name in names]
    kinds = ("reward", "goal", "demonstration")
    rows = [
        [
            f"[`{card.name}`](#{card.name})",
            *(_first_score(card, k) for k in kinds),
        ]
        for card in cards
    ]
    parts = [
        "# Pre-trained models", NOTE,
        "These models come with the package. None saw a reward in training, and no weight changed for these scores.",
        "```python\nimport visr\n\nrun = visr.load(\"pretrained:grid\")\nprint(run.evaluate(run.infer(\"row > 5 and col < 3\")))\n```",
        "On the command line: `visr infer pretrained:grid --reward \"row > 5 and col < 3\" --name corner`.",
        "## Overview",
        "Score of one prompt of each kind; in brackets a random policy and the best constant action. Bold: clearly better than both. On the grids 1 is optimal; elsewhere scores are mean returns.",
        table(["model", *kinds], rows).replace("---:", "---"),
        "`make model RUN=runs/x NAME=x` packs a finished run, scores and films it, and writes this page.",
    ]  # fmt: skip
    for card in cards:
        parts += [f"## {card.name}", *card_parts(card)]
    return joined(parts)


def _first_score(card: packed_models.Card, kind: str) -> str:
    found = next((one for one in card.scores.by_prompt if one.kind == kind), None)
    if found is None:
        return "not possible"
    constant = DASH if found.best_constant is None else f"{found.best_constant:g}"
    beaten = max(found.random, found.best_constant or found.random) + 2 * (
        found.standard_error or 0
    )
    score = f"**{found.score:g}**" if found.score > beaten else f"{found.score:g}"
    return f"{score} ({found.random:g}, {constant})"


def card_parts(card: packed_models.Card) -> list[str]:
    """What the model is, a film, what it can and cannot do, and how to make it again."""
    film = PLACE.parent / f"images/models/{card.name}.gif"
    about = f"{card.about} Environment `{card.config.env}`, seed {card.seed}, weights in {card.precision}."
    words = f"{card.name} obeys one prompt of each kind in turn"
    shown = f"![{words}](../images/models/{card.name}.gif)" if film.exists() else ""
    recipe = "```text\n" + "\n".join(card.recipe) + "\n```"
    return [about, shown, *_can(card), *_cannot(card), "Make it again:", recipe]


def _can(card: packed_models.Card) -> list[str]:
    """Scores by kind of prompt."""
    columns = ["asked for", "score", "random", "constant"]
    rows = [
        [f"{one.kind}: {one.prompt}", _with_error(one), f"{one.random:g}",
         DASH if one.best_constant is None else f"{one.best_constant:g}"]
        for one in card.scores.by_prompt
    ]  # fmt: skip
    if rows:
        lines = table(columns, rows).split("\n")
        aligned = "| --- | ---: | ---: | ---: |"
        words = f"**Scores**, {_units(card)}, beside a random policy and the best constant action:"
        return [words, "\n".join([lines[0], aligned, *lines[2:]])]
    return []


def _units(card: packed_models.Card) -> str:
    """The unit of the first prompt, and what other kinds of prompts add to it."""
    first, *others = card.scores.by_prompt
    added = {one.kind: one.unit for one in others if one.unit != first.unit}
    words = [
        f"{kind}: {unit.removeprefix(first.unit).lstrip(',: ')}" for kind, unit in added.items()
    ]
    return f"{first.unit} ({'; '.join(words)})" if words else first.unit


def _with_error(one: packed_models.PromptScore) -> str:
    error = "" if one.standard_error is None else f" ± {one.standard_error:g}"
    return f"{one.score:g}{error}"


def _cannot(card: packed_models.Card) -> list[str]:
    sentences = "\n".join(f"- {sentence}" for sentence in card.cannot)
    return ["**What it cannot do**", sentences] if sentences else []
