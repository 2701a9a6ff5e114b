"""Convolutional torsos: bytes of pixels -> a vector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from visr.errors import UserError
from visr.networks.mlp_torsos import initialise, linear


def is_image(space: spaces.Space) -> bool:
    """Whether observations are images: [C, H, W] in bytes."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


class ImageTorso(nn.Module):
    """Convolutions, then one linear layer; pixels are bytes up to here.

    `precision` and `channels_last` change the speed and the rounding, nothing else.
    """

    def __init__(self, shape: tuple[int, ...], body: nn.Module, size: int) -> None:
        super().__init__()
        self.size, self.precision, self.channels_last = size, torch.float32, False
        self.brightest = 255
        self.body = body
        with torch.no_grad():
            flat = body(torch.zeros(1, *shape)).numel()
        self.readout = linear(flat, size)

    def forward(self, image: Tensor) -> Tensor:
        """image [..., C, H, W] uint8, or these `prepared` -> [..., size] float32"""
        batch = image.shape[:-3]
        pixels = image if image.is_floating_point() else self.prepared(image)
        low = self.precision != torch.float32
        with torch.autocast(image.device.type, dtype=self.precision, enabled=low):
            hidden = self.readout(self.body(_flat(pixels)).relu_().flatten(1)).relu_()
        return hidden.float().unflatten(0, batch) if len(batch) != 1 else hidden.float()

    def prepared(self, image: Tensor) -> Tensor:
        """The numbers that the convolutions read, for all networks with this precision and layout.

        image [..., C, H, W] uint8 -> [..., C, H, W]
        """
        batch, pixels = image.shape[:-3], _flat(image)
        if self.channels_last:  # a third faster than .contiguous(memory_format=...)
            pixels = torch.stack(pixels.unbind(1), dim=-1).permute(0, 3, 1, 2)
        pixels = pixels.float().mul_(1 / self.brightest).to(self.precision)
        return pixels.unflatten(0, batch) if len(batch) != 1 else pixels


def _flat(image: Tensor) -> Tensor:
    """[..., C, H, W] -> [N, C, H, W]"""
    return image if image.dim() == 4 else image.flatten(0, -4)


class Residual(nn.Module):
    """x + conv(relu(conv(relu(x))))"""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = convolution(channels, channels, 3, padding=1)
        self.second = convolution(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """[N, C, H, W] -> the same"""
        return self.second(self.first(x.relu()).relu_()).add_(x)


def impala(shape: tuple[int, ...]) -> ImageTorso:
    """The large network of Espeholt et al. (2018): 15 convolutions, 256 units."""
    layers: list[nn.Module] = []
    channels = shape[0]
    for width in (16, 32, 32):
        layers.append(convolution(channels, width, 3, padding=1))
        layers.append(nn.MaxPool2d(3, stride=2, padding=1))
        layers += [Residual(width), Residual(width)]
        channels = width
    return ImageTorso(shape, nn.Sequential(*layers), size=256)


def plain(shape: tuple[int, ...], layers: Sequence[tuple[int, int, int]], size: int) -> ImageTorso:
    """Convolutions of (channels, kernel, stride) with ReLUs between them, then `size` units."""
    body: list[nn.Module] = []
    channels = shape[0]
    for width, kernel, stride in layers:
        body += [convolution(channels, width, kernel, stride), nn.ReLU(inplace=True)]
        channels = width
    body.pop()  # ImageTorso has the last ReLU
    return ImageTorso(shape, nn.Sequential(*body) if len(body) > 1 else body[0], size)


_PLAIN = {
    "nature": (((32, 8, 4), (64, 4, 2), (64, 3, 1)), 512),  # Mnih et al. (2015)
    "nips": (((16, 8, 4), (32, 4, 2)), 256),  # Mnih et al. (2013)
    "minatar": (((16, 3, 1),), 128),  # Young and Tian (2019)
}
SMALLEST = {"impala": 1, "nature": 36, "nips": 20, "minatar": 3}
"""The smallest height and width that each torso reads."""


def build(name: str, shape: tuple[int, ...], brightest: int = 255) -> ImageTorso:
    """The torso of that name for images [C, H, W] with values up to `brightest`.

    `auto` is impala, or minatar for images of less than 32 pixels a side; `small` is nips or minatar.
    """
    if name == "auto":
        name = "impala" if min(shape[1:]) >= 32 else "minatar"
    if name == "small":
        name = "nips" if min(shape[1:]) >= SMALLEST["nips"] else "minatar"
    if min(shape[1:]) < SMALLEST[name]:
        raise UserError(
            f"The torso {name} needs images of at least {SMALLEST[name]} pixels a side and these are "
            f"{shape[1]} x {shape[2]}; use --torso impala."
        )
    torso = impala(shape) if name == "impala" else plain(shape, *_PLAIN[name])
    torso.brightest = brightest
    return torso


def convolution(
    inputs: int, outputs: int, size: int, stride: int = 1, padding: int = 0
) -> nn.Conv2d:
    """A convolution with Sonnet's initial weights: truncated normal over the fan-in, zero bias."""
    layer = nn.Conv2d(inputs, outputs, size, stride=stride, padding=padding)
    initialise(layer.weight, inputs * size * size)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


def prepared(network: nn.Module, observation: Tensor) -> Tensor:
    """Observations as the network's torsos read them, so that several need not each convert the images."""
    torso = next((x for x in network.modules() if isinstance(x, ImageTorso)), None)
    return observation if torso is None else torso.prepared(observation)


def set_arithmetic(network: nn.Module, precision: torch.dtype, channels_last: bool) -> None:
    """Set precision and memory layout of every image torso in a network; weights stay float32."""
    for module in network.modules():
        if isinstance(module, ImageTorso):
            module.precision, module.channels_last = precision, channels_last
            if channels_last:
                module.body.to(memory_format=torch.channels_last)  # pyright: ignore
