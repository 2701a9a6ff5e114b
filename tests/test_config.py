"""Settings: the paper's defaults, a help text each, and wrong values are refused."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from visr import config as configuration
from visr.config import (
    AgentConfig,
    GridConfig,
    InferenceConfig,
    RunConfig,
    TrainingConfig,
    finetuning,
    presets,
    replay,
)
from visr.config import fields as sections
from visr.errors import UserError

PAPER = configuration.to_dict(RunConfig())
FIELDS = {
    (section, field.name): field
    for section in configuration.SECTIONS
    for field in dataclasses.fields(getattr(RunConfig(), section))
}


# ------------------------------------------------------------------------------ defaults


def test_the_defaults_are_the_papers():
    agent = AgentConfig()
    assert agent.num_features == 5
    assert (agent.features, agent.cumulant) == ("learned", "next")
    assert (agent.gpi, agent.gpi_samples, agent.gpi_distribution) == (True, 10, "vmf")
    assert agent.gpi_kappa == 5
    assert (agent.gamma, agent.epsilon) == (0.99, 0.05)
    assert agent.target_period == 10_000
    assert (agent.psi_learning_rate, agent.psi_adam_epsilon) == (1e-4, 1e-3)
    assert (agent.phi_learning_rate, agent.phi_adam_epsilon) == (1e-4, 1e-3)
    assert agent.learning_rate_decay == "none"
    training = TrainingConfig()
    assert training.num_steps == 250_000_000
    assert (training.unroll_length, training.batch_size, training.num_envs) == (40, 32, 100)
    assert InferenceConfig() == InferenceConfig(centred=False, ridge=0.0)
    grid = GridConfig()
    assert (grid.height, grid.width, grid.layout) == (10, 10, "open")
    assert agent.hidden_sizes == (100, 100)


def test_the_preset_named_paper_changes_nothing():
    assert presets.get("paper") == RunConfig()


def test_the_preset_of_the_grid_has_the_papers_steps_and_features():
    grid = presets.get("grid")
    assert grid.agent.num_features == 5
    assert grid.training.num_steps == 960_000 * 40
    assert (grid.training.unroll_length, grid.training.batch_size) == (40, 32)


@pytest.mark.parametrize("name", presets.PRESETS)
def test_every_preset_is_valid_and_survives_json(name: str):
    config = presets.get(name)
    assert configuration.validated(config) is config
    text = json.dumps(configuration.to_dict(config), allow_nan=False)
    assert configuration.from_dict(json.loads(text)) == config
    assert presets.PRESETS[name][0]


# --------------------------------------------------------------------- names and doc lines


def test_names_are_unique_across_sections():
    names = [name for _, name in FIELDS]
    assert len(names) == len(set(names))
    expected = {name: section for section, name in FIELDS} | {"env": ""}
    assert configuration.field_names() == expected
    assert not set(names) & {"env", "preset", "out", "resume", "json", *configuration.SECTIONS}


def test_every_field_has_a_doc_line():
    files = (
        Path(module.__file__).read_text()
        for module in (sections, replay, finetuning)
        if module.__file__
    )
    documented = set()
    for node in (node for text in files for node in ast.parse(text).body):
        if not isinstance(node, ast.ClassDef) or node.name == "Bound":
            continue
        assert ast.get_docstring(node), node.name
        for field, after in zip(node.body, [*node.body[1:], None], strict=True):
            if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
                continue
            name = field.target.id
            if node.name == "RunConfig" and name in configuration.SECTIONS:
                continue  # a section has a docstring of its own
            assert isinstance(after, ast.Expr), f"{node.name}.{name} has no doc line"
            assert isinstance(after.value, ast.Constant), f"{node.name}.{name} has no doc line"
            line = after.value.value
            assert isinstance(line, str)
            assert line.endswith("."), f"{node.name}.{name}"
            assert "\n" not in line, f"{node.name}.{name}"
            documented.add(name)
    finetune = {f.name for f in dataclasses.fields(configuration.FinetuneConfig)}
    assert documented == set(configuration.field_names()) | finetune


def test_configurations_cannot_be_changed_in_place():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().agent.gamma = 0.5  # pyright: ignore[reportAttributeAccessIssue]


# ------------------------------------------------------------------------------- replace


def test_replace_finds_fields_in_every_section():
    config = configuration.replace(
        RunConfig(), env="Taxi-v4", gamma=0.5, num_steps=7, ridge=0.1, height=3
    )
    assert (config.env, config.agent.gamma, config.training.num_steps) == ("Taxi-v4", 0.5, 7)
    assert (config.inference.ridge, config.grid.height) == (0.1, 3)
    assert configuration.replace(config) == config


def test_replace_takes_a_list_for_a_tuple():
    config = configuration.replace(RunConfig(), hidden_sizes=[64, 32])
    assert config.agent.hidden_sizes == (64, 32)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"wormholes": 3}, "There is no field `wormholes`; `visr pretrain --help` lists"),
        ({"num_step": 3}, "There is no field `num_step`; did you mean `num_steps`"),
        ({"num_steps": 0}, "num_steps = 0 is too small; it must be at least 1"),
        ({"num_steps": 1.5}, "num_steps = 1.5 must be a whole number"),
        ({"num_steps": True}, "num_steps = True must be a whole number"),
        ({"num_steps": "7"}, "num_steps = '7' must be a whole number, as 5000 or 5e3"),
        ({"num_steps": 10**400}, "num_steps = 1000.* is too large"),
        ({"num_features": 1}, "num_features = 1 is too small; it must be at least 2"),
        ({"num_envs": 10**7}, "num_envs = 10000000 is too large"),
        ({"gamma": 1}, "gamma = 1 makes the sum of features endless"),
        ({"gamma": float("nan")}, "gamma = nan must be a finite number"),
        ({"gamma": None}, "gamma = None must be a finite number"),
        ({"epsilon": -0.1}, "epsilon = -0.1 must lie between 0 and 1"),
        ({"gpi_kappa": float("inf")}, "gpi_kappa = inf must be a finite number"),
        ({"psi_learning_rate": 0}, "psi_learning_rate = 0 must be greater than 0"),
        ({"features": "leraned"}, "features = 'leraned' is not a choice; .* learned, random"),
        ({"features": []}, "features = .* is not a choice"),
        ({"gpi": 1}, "gpi = 1 must be true or false"),
        ({"hidden_sizes": ()}, "hidden_sizes = .* must be one or more whole numbers"),
        ({"hidden_sizes": 5}, "hidden_sizes = 5 must be one or more whole numbers"),
        ({"hidden_sizes": "55"}, "hidden_sizes = '55' must be one or more whole numbers"),
        ({"hidden_sizes": (5, 0)}, "hidden_sizes = .* must be one or more whole numbers"),
        ({"hidden_sizes": (True,)}, "hidden_sizes = .* must be one or more whole numbers"),
        ({"num_envs": 2, "num_actor_groups": 3}, "num_actor_groups = 3 is more than num_envs = 2"),
        ({"env": "a:b:X-v0"}, "env = 'a:b:X-v0' must be an environment's id"),
        ({"env": "../x:X-v0"}, "must be an environment's id"),
        ({"env": ":X-v0"}, "env = ':X-v0' must be an environment's id"),
        ({"env": ""}, "env = '' must be an environment's id"),
        ({"env": None}, "env = None must be an environment's id"),
    ],
    ids=str,
)
def test_a_wrong_value_is_a_sentence_that_names_it(fields: dict[str, Any], sentence: str):
    with pytest.raises(UserError, match=sentence):
        configuration.replace(RunConfig(), **fields)


def test_no_number_may_be_negative_or_too_large():
    names = [name for (_, name), field in FIELDS.items() if type(field.default) in (int, float)]
    values = (-1, 10**19, float("nan"), float("inf"), "1", None, [1], True)
    for name, value in itertools.product(names, values):
        with pytest.raises(UserError, match=name):
            configuration.replace(RunConfig(), **{name: value})


def test_a_grid_of_one_cell_is_valid_but_not_trainable():
    config = configuration.replace(RunConfig(), height=1, width=1)
    with pytest.raises(UserError, match="A grid of 1 x 1 cells is too small"):
        configuration.trainable(config)
    wider = configuration.replace(config, width=2)
    assert configuration.trainable(wider) is wider
    elsewhere = configuration.replace(config, env="Taxi-v4")
    assert configuration.trainable(elsewhere) is elsewhere


# ---------------------------------------------------------------------- from untrusted JSON


def test_a_configuration_survives_json():
    config = configuration.replace(RunConfig(), env="Taxi-v4", hidden_sizes=(3, 4), gpi=False)
    content = json.loads(json.dumps(configuration.to_dict(config)))
    assert configuration.from_dict(content) == config
    assert content["agent"]["hidden_sizes"] == [3, 4]


def test_a_missing_field_takes_its_default():
    assert configuration.from_dict({"env": "Taxi-v4", "agent": {"gamma": 0.5}}) == (
        configuration.replace(RunConfig(), env="Taxi-v4", gamma=0.5)
    )


def changed(section: str, **values: Any) -> dict[str, Any]:
    return PAPER | {section: PAPER.get(section, {}) | values}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "not an object with an `env`"),
        ([], "not an object with an `env`"),
        ({}, "not an object with an `env`"),
        (PAPER | {"env": 3}, "not an object with an `env`"),
        (PAPER | {"env": "-m trap:X-v0"}, "env = '-m trap:X-v0' must be"),
        (PAPER | {"wormholes": {}}, "wormholes"),
        (PAPER | {"agent": []}, "`agent` does not fit"),
        (changed("agent", wormholes=3), "`agent` does not fit this version .*wormholes"),
        (changed("agent", hidden_sizes=5), "hidden_sizes = 5"),
        (changed("agent", hidden_sizes=[[1]]), "hidden_sizes"),
        (changed("agent", features=["learned"]), "features"),
        (changed("training", num_steps={}), "num_steps = {}"),
        (changed("training", num_steps=1e999), "num_steps = inf"),
        (changed("grid", height=-3), "height = -3"),
        (changed("agent", bonus="forward"), "bonus = 'forward' was removed from visr"),
    ],
)
def test_a_dictionary_that_does_not_fit_is_a_user_error(content: Any, sentence: str):
    with pytest.raises(UserError, match=sentence):
        configuration.from_dict(content)


FLOATS = some.floats(allow_subnormal=False)  # an earlier test may have flushed subnormals to zero
json_values = some.recursive(
    some.none() | some.booleans() | some.integers() | FLOATS | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(), inner, max_size=3),
    max_leaves=10,
)


def raises_nothing_but_user_errors(content: Any) -> None:
    try:
        config = configuration.from_dict(content)
    except UserError:
        return
    again = json.loads(json.dumps(configuration.to_dict(config), allow_nan=False))
    assert configuration.from_dict(again) == config


@settings(max_examples=200, deadline=None)
@given(content=json_values)
def test_no_json_breaks_the_reader(content: Any):
    raises_nothing_but_user_errors(content)


@settings(max_examples=400, deadline=None)
@given(place=some.sampled_from(sorted(FIELDS)), value=json_values)
def test_no_value_of_a_field_breaks_the_reader(place: tuple[str, str], value: Any):
    section, name = place
    raises_nothing_but_user_errors(changed(section, **{name: value}))


@settings(max_examples=100, deadline=None)
@given(name=some.sampled_from(["env", *configuration.SECTIONS, "x"]), value=json_values)
def test_no_value_of_a_section_breaks_the_reader(name: str, value: Any):
    raises_nothing_but_user_errors(PAPER | {name: value})


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"goal_share": 0.9, "stretch_share": 0.4}, "sum to 1.3"),
        ({"num_stages": 20}, "num_stages = 20"),
        ({"transition_features": "pixels"}, "is not a choice"),
        ({"algorithm": "fb", "transition_features": "phi"}, "learns features of its own"),
    ],
)
def test_settings_of_the_replay_learners_are_checked(fields: dict[str, Any], words: str):
    with pytest.raises(UserError, match=words):
        configuration.replace(RunConfig(), **{"algorithm": "replay", **fields})
