"""Share a run: pack it into one file, push it to a Hugging Face hub repository, pull it from one."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from visr import arguments
from visr.agents.base import BehaviourModel
from visr.config import REPLAY_LEARNERS, RunConfig, all_flags, presets
from visr.errors import UserError, one_line, short_repr
from visr.optional_packages import needing
from visr.run import Run
from visr.storage import packed_models
from visr.storage.files import write_bytes
from visr.storage.packed_models import Card, PackedModel, Precision, Scores
from visr.storage.records.two_phase import TwoPhase

FILE = "model.safetensors"
"""The packed model in a hub repository."""


@arguments.checked
def pack(
    run: Run,
    out: str | Path,
    *,
    name: str | None = None,
    about: str = "",
    precision: Precision = "float32",
    tasks: bool = True,
    scores: Scores | None = None,
    recipe: Sequence[str] | None = None,
    cannot: Sequence[str] | None = None,
    most: int = packed_models.LARGEST,
) -> PackedModel:
    """Write a run's networks, card and tasks into one safetensors file that `visr.load` opens.

    `scores`, `recipe` and `cannot` replace what the card takes from the run's files; `most` bounds the size.
    """
    if not isinstance(run, Run):
        raise UserError(f"run = {short_repr(run)} is not a run; give what visr.load returns.")
    target = arguments.path(out, "out")
    if not isinstance(run.agent, BehaviourModel):
        raise UserError(
            f"{run.address} holds a {run.config.agent.algorithm} agent, which infers no tasks; such agents "
            "cannot be packed."
        )
    if scores is not None and not isinstance(scores, Scores):
        raise UserError(
            f"scores = {short_repr(scores)} are not Scores of visr.storage.packed_models."
        )
    arguments.optional_list(recipe, "recipe")
    arguments.optional_list(cannot, "cannot")
    known = None if run.model is None else run.model.card
    is_replay = run.config.agent.algorithm in REPLAY_LEARNERS
    learner = "The replay learner" if is_replay else "VISR"
    if recipe is None:
        recipe = (pretrain_command(run.config),) if known is None else known.recipe
    if cannot is None:
        cannot = () if known is None else known.cannot
    card = Card(
        name=name or (Path(run.address).resolve().name if known is None else known.name),
        about=about or (f"{learner} in {run.config.env}." if known is None else known.about),
        num_steps=run.num_steps,
        seed=run.config.training.seed,
        precision=precision,
        scores=scores or (_scores(run) if known is None else known.scores),
        recipe=tuple(recipe),
        config=run.config,
        cannot=tuple(cannot),
    )
    tensors = run.agent.packed()
    kept = dict(run.tasks) if tasks else {}
    return packed_models.open_model(packed_models.pack(target, card, tensors, kept, most))


def _scores(run: Run) -> Scores:
    """Scores that the run's files hold."""
    directory = run.directory
    exact = directory.last_row(directory.evaluation)
    exact.pop("num_steps", None)
    means = {}
    if directory.phase_two.is_file():
        found = TwoPhase.load(directory.phase_two, run.config.env)
        means = {c.name: round(c.mean, 2) for c in found.conditions}
    command = "visr evaluate RUN" if exact or means else ""
    return Scores({k: round(v, 3) for k, v in exact.items()}, means, command)


def pretrain_command(config: RunConfig, preset: str = "paper") -> str:
    """The command that trains such a run: a preset and the settings that differ from it."""
    settings = all_flags(config, presets.get(preset))
    return shlex.join(["visr", "pretrain", config.env, "--preset", preset, *settings])


def readme(model: PackedModel) -> str:
    """The page of a hub repository."""
    card = model.card
    lines = [
        "---",
        "library_name: visr",
        "pipeline_tag: reinforcement-learning",
        "tags: [visr, successor-features, reinforcement-learning]",
        "---",
        f"# {card.name}",
        "",
        card.about,
        "",
        f"- environment: `{card.config.env}`",
        f"- steps of training: {card.num_steps:,} (seed {card.seed})",
        f"- features d: {card.config.agent.num_features}; weights in {card.precision}",
        f"- tasks: {', '.join(f'`{name}`' for name in model.tasks) or 'none'}",
        "",
        "```python",
        "import visr  # pip install visr",
        "",
        'run = visr.load("model.safetensors")',
        "```",
    ]
    lines += _prompts(card)
    for title, scores in (
        ("Fraction of optimal", card.scores.fraction_of_optimal),
        ("Mean score of 30 episodes", card.scores.mean_score_of_30_episodes),
    ):
        if scores:
            lines += ["", f"## {title}", "", "| | |", "|---|---|"]
            lines += [f"| {name} | {value:g} |" for name, value in scores.items()]
    if card.recipe:
        lines += ["", "## How it was made", "", "```sh", *card.recipe, "```"]
    return "\n".join([*(one_line(line) if line else "" for line in lines), ""])


def _prompts(card: Card) -> list[str]:
    """What it can do, by kind of prompt, and what it cannot."""
    lines = []
    if card.scores.by_prompt:
        lines += ["", "## What it can do", "", "| prompt | asked for | score | random policy | "]
        lines[-1] += "best constant action | unit |"
        lines += ["|---|---|---|---|---|---|"]
    for one in card.scores.by_prompt:
        constant = "" if one.best_constant is None else f"{one.best_constant:g}"
        cells = [one.kind, one.prompt, f"{one.score:g}", f"{one.random:g}", constant, one.unit]
        lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    if card.cannot:
        lines += ["", "## What it cannot do", "", *(f"- {sentence}" for sentence in card.cannot)]
    return lines


@arguments.checked
def push(run: Run, repo: str, *, private: bool = False, **fields: Any) -> str:
    """Pack a run and upload it with a page; return the address. `fields` are `pack`'s."""
    with needing("huggingface_hub", "hub"):
        import huggingface_hub
    fields.setdefault("name", repo.rpartition("/")[2])
    with tempfile.TemporaryDirectory() as place, _hub_errors("push to", repo):
        model = pack(run, Path(place) / FILE, **fields)
        hub = huggingface_hub.HfApi(endpoint=_endpoint())
        address = hub.create_repo(repo, private=private, exist_ok=True)  # adds a missing owner
        add = huggingface_hub.CommitOperationAdd
        files = [add(FILE, str(model.path)), add("README.md", readme(model).encode())]
        hub.create_commit(address.repo_id, files, commit_message="Upload a visr model")
    return str(address)


@arguments.checked
def pull(repo: str, out: str | Path | None = None) -> Path:
    """Download a packed model, check it, and write it to a new file; nothing in it is run."""
    with needing("huggingface_hub", "hub"):
        import huggingface_hub
    name = repo.rpartition("/")[2]
    where = Path("runs") / f"{name}.safetensors" if out is None else out
    path = arguments.path(where, "repo" if out is None else "out")
    if path.exists():
        raise UserError(f"{path} exists already; name another file.")
    with tempfile.TemporaryDirectory() as place:
        with _hub_errors("pull from", repo):
            url = huggingface_hub.hf_hub_url(repo, FILE, endpoint=_endpoint())
            size = huggingface_hub.get_hf_file_metadata(url, endpoint=_endpoint()).size
            if size is None or size > packed_models.LARGEST:
                raise ValueError(f"{FILE} is larger than {packed_models.LARGEST:,} bytes")
            found = huggingface_hub.hf_hub_download(
                repo, FILE, local_dir=place, endpoint=_endpoint()
            )
        try:
            packed_models.open_model(found).weights()
        except UserError as error:
            reason = str(error).replace(str(found), FILE)
            raise UserError(f"{repo}: {reason}") from None
        write_bytes(path, Path(found).read_bytes())
    return path


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


@contextlib.contextmanager
def _hub_errors(action: str, repo: str) -> Iterator[None]:
    """Turn what the hub or the network raises into one sentence."""
    from huggingface_hub import utils
    from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError

    if not sys.stderr.isatty():
        utils.disable_progress_bars()
    try:
        yield
    except UserError:
        raise
    except RepositoryNotFoundError:
        reason = "there is no such repository, or you may not see it"
    except EntryNotFoundError:
        reason = f"it holds no {FILE}, which `visr push` uploads"
    except Exception as error:  # the library's own, and those of the network
        reason = next((line for line in str(error).splitlines() if line), type(error).__name__)
    else:
        return
    hint = "check its name, and log in with `hf auth login` or set HF_TOKEN"
    raise UserError(
        f"Cannot {action} {json.dumps(repo)}: {one_line(reason, 300).rstrip('.')}; {hint}."
    )
