"""Training of the replay learner: recorded steps, stages, resume, and how good it becomes."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

import visr
from visr import config as configuration
from visr import pretraining
from visr.config import RunConfig, presets
from visr.errors import Stopped
from visr.networks.successor import SuccessorFeatures
from visr.training.driver import Status
from visr.training.learner import concatenate
from visr.training.recorded_steps import RecordedSteps
from visr.training.replay_loop import ReplayLoop
from visr.types import Pursuit

SMALL = {"num_envs": 8, "unroll_length": 16, "num_updates": 24, "log_every": 512}


def config_for(env: str, preset: str, **fields: object) -> RunConfig:
    return configuration.replace(presets.get(preset), env=env, **{**SMALL, **fields})


GRID = config_for(
    "visr/Grid-v0",
    "replay-grid",
    height=4,
    width=4,
    num_steps=4_096,
    warmup_steps=1_024,
    checkpoint_every=1_024,
    evaluate_every=4_096,
)
POLE = config_for(
    "CartPole-v1",
    "replay-vectors",
    num_steps=4_096,
    warmup_steps=512,
    checkpoint_every=1_024,
    recorded_steps=1_000,
)
BREAKOUT = config_for(
    "MinAtar/Breakout-v1",
    "replay-minatar",
    num_steps=4_096,
    warmup_steps=1_024,
    checkpoint_every=1_024,
)


def files(path: Path) -> dict[str, str]:
    """The content of all files but clocks and TensorBoard's, which hold times."""
    names = [p for p in sorted(path.rglob("*")) if p.is_file()]
    kept = [p for p in names if "tfevents" not in p.name and p.name not in ("timing.csv", "lock")]
    return {str(p.relative_to(path)): hashlib.sha256(p.read_bytes()).hexdigest() for p in kept}


@pytest.mark.parametrize("config", [GRID, POLE, BREAKOUT], ids=["grid", "cartpole", "breakout"])
def test_a_stopped_run_resumes_to_the_same_bytes(config: RunConfig, tmp_path: Path):
    if config is BREAKOUT:
        pytest.importorskip("minatar")
    pretraining.start(tmp_path / "whole", config)

    class Interrupt(Exception):
        pass

    def stop(status: Status) -> None:
        if status.num_steps >= 2_500:
            raise Interrupt

    with pytest.raises((Interrupt, Stopped)):
        pretraining.start(tmp_path / "stopped", config, stop)
    pretraining.resume(tmp_path / "stopped", num_processes=2)  # it goes on in a child process
    assert files(tmp_path / "stopped") == files(tmp_path / "whole")


def test_the_number_of_processes_changes_nothing(tmp_path: Path):
    config = configuration.replace(POLE, num_actor_groups=2)
    runs = {n: pretraining.start(tmp_path / str(n), replace(config, n)) for n in (1, 3)}
    alone, shared = (files(run.path) for run in runs.values())
    assert alone.pop("config.json") != shared.pop("config.json")  # it says how many
    assert alone == shared


def replace(config: RunConfig, num_processes: int) -> RunConfig:
    return configuration.replace(config, num_processes=num_processes)


def test_a_round_acts_with_the_weights_of_its_start_and_learns_meanwhile():
    loop = ReplayLoop(configuration.replace(POLE, warmup_steps=0))
    begun = []
    (pool,) = loop.actor_pools
    begin = pool.begin

    def noted(psi: SuccessorFeatures, pursuit: Pursuit | None = None) -> None:
        begun.append((loop.num_updates, loop.recorded.buffer.num_added))
        begin(psi, pursuit)

    pool.begin = noted
    updates = [current.num_updates for current in loop.rounds()]
    loop.close()
    # 32 rounds of 8 unrolls; the last one only learns
    assert begun == [(made, 8 * k) for k, made in enumerate([0, *updates[:-2]])]
    assert len(begun) == 32
    assert updates[0] == 0
    assert updates[-1] == loop.num_updates == 24


def test_a_checkpoint_of_an_older_version_goes_on():
    loop = ReplayLoop(POLE)
    for _ in zip(range(5), loop.rounds(), strict=False):
        pass
    tensors, counts = loop.state()
    loop.close()
    older = {name.replace("actor0.", "actor."): tensor for name, tensor in tensors.items()}
    del counts["num_collected"]
    again = ReplayLoop(POLE)
    again.load_state(older, counts)
    state, _ = again.state()
    again.close()
    assert torch.equal(state["actor0.generator"], tensors["actor0.generator"])


def test_each_stage_starts_psi_with_new_weights():
    config = configuration.replace(POLE, num_stages=3, num_updates=90, num_steps=10_240)
    loop, seen = ReplayLoop(config), []
    for _ in loop.rounds():
        if loop.stage >= 0 and (not seen or seen[-1][0] != loop.stage):
            seen.append((loop.stage, loop.num_updates))
    loop.close()
    assert [stage for stage, _ in seen] == [0, 1, 2]
    assert seen[1][1] == pytest.approx(90 / 9, abs=6)
    assert seen[2][1] == pytest.approx(90 / 3, abs=6)
    assert loop.num_updates == 90


@pytest.mark.parametrize(
    ("game", "planes", "megabytes"),
    [
        ("Asterix", 4, 72.1),
        ("Breakout", 4, 72.1),
        ("Freeway", 7, 111.0),
        ("Seaquest", 10, 148.9),
        ("SpaceInvaders", 6, 97.7),
    ],
)
def test_a_million_steps_of_minatar_take_less_than_150_megabytes(
    game: str, planes: int, megabytes: float
):
    pytest.importorskip("minatar")
    config = configuration.replace(presets.get("replay-minatar"), env=f"MinAtar/{game}-v1")
    loop = ReplayLoop(config)  # memory that nothing is written to is not taken
    loop.close()
    rows = loop.recorded.buffer.storage
    assert loop.recorded.max_steps == 1_000_000
    # per step: bits of planes x 100 cells, 41 observations per 40 steps; action 4, reward 4, three flags;
    # per unroll of 40 steps: w 96 x 4, the previous action 8
    per_step = -(-planes * 100 // 8) * 41 / 40 + 11 + (96 * 4 + 8) / 40
    assert sum(x.numel() * x.element_size() for x in rows) == pytest.approx(1e6 * per_step)
    assert per_step == pytest.approx(megabytes, abs=0.1)
    assert per_step < 150


def test_planes_take_one_bit_a_cell_in_the_replay_buffer():
    pytest.importorskip("minatar")
    loop = ReplayLoop(BREAKOUT)
    next(loop.rounds())
    stored = loop.recorded.buffer.storage.observation
    assert stored.shape[2:] == (50,)  # 4 planes of 10 x 10 cells
    unroll = loop.recorded.sample(torch.Generator().manual_seed(0))
    assert unroll.observation.shape[2:] == (4, 10, 10)
    assert set(np.unique(unroll.observation)) == {0, 1}
    loop.close()


def test_drawn_events_are_those_of_the_recorded_observations():
    pytest.importorskip("minatar")
    loop = ReplayLoop(BREAKOUT)
    (pool,) = loop.actor_pools
    pool.begin(loop.agent.psi, loop.practice.pursuit)
    unrolls = [concatenate(pool.collect()) for _ in range(3)]
    unroll, chi = unrolls[0], loop.agent.chi
    capacity = len(unroll.action) * (
        unroll.num_unrolls + 3
    )  # the second overwrites some of the first
    recorded = RecordedSteps(capacity, unroll, loop.agent.spec.observation_space)
    for number, added in enumerate(unrolls):
        recorded.add(added)
        if number != 1:  # the events that features stand for change, or do not
            chi.fit(added)
        held = torch.arange(recorded.buffer.capacity if number else unroll.num_unrolls)
        time, slot = torch.cartesian_prod(torch.arange(len(unroll.action)), held).T
        found = recorded._chi(loop.agent, time, slot)
        assert torch.equal(found, loop.agent.cumulant(recorded._steps(time, slot)))
        assert found.any()
    loop.close()


def test_n_step_cumulants_stop_where_the_episode_ends():
    loop = ReplayLoop(configuration.replace(GRID, n_step=3, gamma=0.5))
    (pool,) = loop.actor_pools
    pool.begin(loop.agent.psi, loop.practice.pursuit)
    (unroll,) = pool.collect()
    ended = torch.zeros_like(unroll.terminated)
    ended[1::2] = True  # every second step ends an episode
    recorded = RecordedSteps(4_096, unroll, loop.agent.spec.observation_space)
    recorded.add(unroll._replace(terminated=ended))
    rng = torch.Generator().manual_seed(0)
    batch = recorded.batch(loop.agent, torch.zeros(1, loop.agent.task_size), 32, rng)
    assert set(batch.discount.tolist()) == {0.0}  # an end lies within two steps of everything
    loop.close()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> visr.Run:
    """The replay learner on a small grid, a few seconds."""
    config = configuration.replace(
        presets.get("replay-grid"),
        env="visr/Grid-v0",
        height=5,
        width=5,
        num_features=32,
        num_steps=60_000,
        warmup_steps=30_000,
        num_updates=700,
        evaluate_every=60_000,
    )
    path = tmp_path_factory.mktemp("replay") / "run"
    return visr.load(pretraining.start(path, config).path)


def test_goals_and_rewards_of_cells_are_solved_without_a_weight_change(trained: visr.Run):
    goal = trained.evaluate(trained.infer("goal:0,4"))
    half = trained.evaluate(trained.infer("row > 2"))
    assert goal.fraction_of_optimal > 0.95  # pyright: ignore
    assert half.fraction_of_optimal > 0.9  # pyright: ignore


def test_the_replay_learner_is_packed_exported_and_finetuned_like_visr(
    trained: visr.Run, tmp_path: Path
):
    from visr import sharing

    task = trained.infer("goal:0,4")
    model = sharing.pack(trained, tmp_path / "model.safetensors")
    again = visr.load(str(model.path))
    before, after = (run.evaluate(task, gpi=True) for run in (trained, again))
    assert before.fraction_of_optimal == after.fraction_of_optimal  # pyright: ignore
    tuned = trained.finetune(task, out=tmp_path / "tuned", num_steps=2_000)
    assert tuned.evaluate(task).fraction_of_optimal > 0.9  # pyright: ignore


def test_a_reward_of_a_vector_is_inferred_from_the_recorded_steps(tmp_path: Path):
    run = visr.load(pretraining.start(tmp_path / "run", POLE).path)
    assert len(run.recording().action) > 900
    task = run.infer("x0 > 0")
    assert task.w.shape == (104,)
    assert run.policy(task)(np.zeros(4, np.float32)) in (0, 1)
    surviving = run.compare("env", num_episodes=4)
    assert (
        surviving.best == "least squares"
    )  # the reward is 1 in every step, as is the first feature
    assert abs(surviving.estimates["least squares"].w[0]) > 0.8


def test_the_learning_rate_rises_from_nearly_zero_at_the_start_of_every_stage():
    loop = ReplayLoop(configuration.replace(POLE, num_updates=240))
    rates: dict[int, list[float]] = {}
    for _ in loop.rounds():
        if loop.stage >= 0:
            rates.setdefault(loop.stage, []).append(loop._optimiser.param_groups[0]["lr"])
    loop.close()
    highest = loop.config.agent.psi_learning_rate
    assert sorted(rates) == [0, 1, 2]
    assert all(0 < rate <= highest for stage in rates.values() for rate in stage)
    assert all(stage[0] < stage[-1] for k, stage in rates.items() if k < 2)
