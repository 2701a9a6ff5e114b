"""Torsos for images: their sizes, and that precision and layout do not change results."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from visr import config as configuration
from visr import networks
from visr.agents.visr import Visr
from visr.config import AgentConfig, RunConfig
from visr.errors import UserError
from visr.networks import conv_torsos
from visr.networks.conv_torsos import ImageTorso
from visr.networks.deep import DeepFeatures, DeepSuccessorFeatures
from visr.ops import sphere
from visr.types import EnvSpec, Unroll

ATARI = (4, 84, 84)
SPEC = EnvSpec(Box(0, 255, (4, 20, 20), np.uint8), num_actions=3)


def count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def pixels(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randint(256, shape, generator=generator).to(torch.uint8)


def config(torso: str) -> AgentConfig:
    return AgentConfig(torso=torso, hidden_sizes=(16,))  # pyright: ignore


def new_agent(**fields: Any) -> Visr:
    torch.manual_seed(0)
    return Visr(configuration.replace(RunConfig(), **fields).agent, SPEC)


@pytest.fixture
def unroll() -> Unroll:
    torch.manual_seed(1)
    length, batch = 4, 3
    never = torch.zeros(length, batch, dtype=torch.bool)
    return Unroll(
        observation=pixels(length + 1, batch, 4, 20, 20),
        action=torch.randint(3, (length, batch)),
        reward=torch.zeros(length, batch),
        terminated=never,
        truncated=never.clone(),
        is_reset=never.clone(),
        w=sphere.uniform(batch, d=5),
        previous_action=torch.full((batch,), -1),
        memory=torch.zeros(batch, 512),
    )


def gradients(agent: Visr, unroll: Unroll) -> dict[str, Tensor]:
    losses = agent.losses(unroll)
    (losses.psi + losses.phi).backward()
    return {name: p.grad for name, p in agent.named_parameters() if p.grad is not None}


# --- sizes


@pytest.mark.parametrize(
    ("name", "size", "convolutions", "connected"),
    [
        # 84 -> 42 -> 21 -> 11 by pooling, 32 * 11 * 11 = 3872 inputs, and a bias
        ("impala", 256, 97_744, (3_872 + 1) * 256),
        # 84 -> 20 -> 9 -> 7: 64 * 7 * 7; 32 (4 * 8 * 8 + 1), 64 (32 * 4 * 4 + 1), 64 (64 * 3 * 3 + 1)
        ("nature", 512, 8_224 + 32_832 + 36_928, (3_136 + 1) * 512),
        # 84 -> 20 -> 9: 32 * 9 * 9; 16 (4 * 8 * 8 + 1), 32 (16 * 4 * 4 + 1)
        ("nips", 256, 4_112 + 8_224, (2_592 + 1) * 256),
    ],
)
def test_torsos_have_the_published_sizes(name: str, size: int, convolutions: int, connected: int):
    torso = conv_torsos.build(name, ATARI)
    assert torso.size == size
    assert count(torso.body) == convolutions
    assert count(torso.readout) == connected
    assert torso(pixels(2, *ATARI)).shape == (2, size)


def test_impala_has_fifteen_convolutions_and_the_papers_count():
    torso = conv_torsos.impala(ATARI)
    assert sum(isinstance(m, nn.Conv2d) for m in torso.modules()) == 15
    assert count(torso) == 97_744 + 991_488


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("name", conv_torsos.SMALLEST)
def test_torsos_accept_any_leading_axes(name: str, channels_last: bool):
    torso = conv_torsos.build(name, (4, 36, 36))
    conv_torsos.set_arithmetic(torso, torch.float32, channels_last)
    image = pixels(2, 3, 4, 36, 36)
    together = torso(image)
    assert together.shape == (2, 3, torso.size)
    for t in range(2):
        torch.testing.assert_close(torso(image[t]), together[t])


def test_pixels_are_scaled_to_1_and_the_image_is_not_changed():
    # Sum of the pixels: one convolution of ones, and a readout that returns it
    torso = conv_torsos.build("nips", (1, 20, 20))
    whole = nn.Conv2d(1, 1, 20)
    torso.body, torso.readout = nn.Sequential(whole), nn.Linear(1, 1)
    for layer in (whole, torso.readout):
        nn.init.ones_(layer.weight)
        assert layer.bias is not None
        nn.init.zeros_(layer.bias)
    image = torch.zeros(1, 1, 20, 20, dtype=torch.uint8)
    image[0, 0, 3, 4], image[0, 0, 5, 6] = 255, 51
    before = image.clone()
    torch.testing.assert_close(torso(image), torch.tensor([[1.2]]))
    assert torch.equal(image, before)


# --- precision and layout


@pytest.mark.parametrize("torso", ["impala", "nips"])
def test_channels_last_changes_neither_losses_nor_gradients(unroll: Unroll, torso: str):
    planes, rows = new_agent(torso=torso), new_agent(torso=torso)
    conv_torsos.set_arithmetic(rows, torch.float32, channels_last=True)
    assert any(isinstance(m, ImageTorso) and m.channels_last for m in rows.modules())
    torch.testing.assert_close(planes.losses(unroll).psi, rows.losses(unroll).psi)
    torch.testing.assert_close(planes.losses(unroll).phi, rows.losses(unroll).phi)
    expected, actual = gradients(planes, unroll), gradients(rows, unroll)
    assert expected.keys() == actual.keys()
    for name, gradient in expected.items():
        scale = gradient.abs().max().item()
        torch.testing.assert_close(actual[name], gradient, rtol=1e-4, atol=1e-5 * scale, msg=name)


@pytest.mark.parametrize("torso", ["impala", "nips"])
def test_bfloat16_agrees_with_float32_to_two_digits(unroll: Unroll, torso: str):
    # bfloat16 keeps 8 bits, so each rounding is off by at most 2^-9 = 0.2 %. Errors of products are
    # independent and average out; what is left are the roundings of up to 17 layers, at worst 3.4 % of a
    # psi whose loss is quadratic (twice that), and as much of the cosine phi . w.
    exact, rounded = new_agent(torso=torso), new_agent(torso=torso)
    conv_torsos.set_arithmetic(rounded, torch.bfloat16, channels_last=True)
    a, b = exact.losses(unroll), rounded.losses(unroll)
    assert b.psi.dtype == b.phi.dtype == torch.float32
    assert b.psi.item() == pytest.approx(a.psi.item(), rel=0.07)
    assert b.phi.item() == pytest.approx(a.phi.item(), abs=0.034)
    assert b.psi.item() != a.psi.item()


def test_only_the_torso_computes_in_bfloat16(unroll: Unroll):
    agent = new_agent(torso="nips")
    conv_torsos.set_arithmetic(agent, torch.bfloat16, channels_last=True)
    seen: dict[str, torch.dtype] = {}
    psi, phi = agent.psi, agent.phi
    assert isinstance(psi, DeepSuccessorFeatures)
    assert isinstance(phi, DeepFeatures)
    body: Any = psi.torso.body
    watched = {"conv": body, "torso": psi.torso, "trunk": psi.from_trunk, "task": psi.from_task}
    for name, layer in {**watched, "phi": phi.readout}.items():
        layer.register_forward_hook(lambda _m, _i, out, name=name: seen.update({name: out.dtype}))
    found = gradients(agent, unroll)
    assert seen.keys() == {*watched, "phi"}
    assert seen.pop("conv") == torch.bfloat16
    assert set(seen.values()) == {torch.float32}
    assert {p.dtype for p in agent.parameters()} == {torch.float32}
    assert {g.dtype for g in found.values()} == {torch.float32}


def test_a_copy_keeps_precision_and_layout():
    torso = conv_torsos.build("nips", (4, 20, 20))
    conv_torsos.set_arithmetic(torso, torch.bfloat16, channels_last=True)
    twin = copy.deepcopy(torso)
    assert torch.equal(twin(pixels(2, 4, 20, 20)), torso(pixels(2, 4, 20, 20)))


# --- bad input


@pytest.mark.parametrize(("name", "smallest"), [("nature", 36), ("nips", 20)])
def test_images_too_small_for_a_torso_are_refused(name: str, smallest: int):
    assert (
        conv_torsos.build(name, (4, smallest, smallest))(pixels(1, 4, smallest, smallest))
        .isfinite()
        .all()
    )
    for shape in ((4, smallest - 1, 84), (4, 84, smallest - 1)):
        with pytest.raises(UserError, match=rf"at least {smallest} pixels .* torso=.impala.\.$"):
            conv_torsos.build(name, shape)


def test_impala_reads_an_image_of_one_pixel():
    assert conv_torsos.build("impala", (4, 1, 1))(pixels(1, 4, 1, 1)).shape == (1, 256)


@pytest.mark.parametrize("name", conv_torsos.SMALLEST)
def test_image_torsos_refuse_discrete_states(name: str):
    spec = EnvSpec(Discrete(9), num_actions=4)
    for make in (
        lambda: networks.features(spec, config(name)),
        lambda: networks.successor_features(spec, config(name), 5, 5),
    ):
        with pytest.raises(UserError, match=rf"torso = '{name}' reads images .* torso=.auto.\.$"):
            make()


def test_the_mlp_refuses_images():
    with pytest.raises(UserError, match="'mlp' does not read images"):
        networks.features(SPEC, config("mlp"))


def test_images_get_a_torso_by_size_and_an_lstm_by_default():
    for side, convolutions in ((20, 1), (32, 15)):  # small ones get MinAtar's torso
        spec = EnvSpec(Box(0, 255, (4, side, side), np.uint8), num_actions=3)
        psi: Any = Visr(RunConfig().agent, spec).psi
        assert sum(isinstance(m, nn.Conv2d) for m in psi.modules()) == convolutions
        assert psi.memory_size == 512
    assert new_agent(core="none").psi.memory_size == 0
