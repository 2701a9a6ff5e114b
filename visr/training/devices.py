"""Device, number format and threads of the networks."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from typing import TypeVar

import torch
from torch import nn

from visr.config.fields import TrainingConfig
from visr.errors import UserError, short_repr
from visr.networks import conv_torsos

Network = TypeVar("Network", bound=nn.Module)


def device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU if one is available."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(name)
        torch.zeros(1, device=chosen).item()  # the device `meta` has tensors without values
    except (RuntimeError, AssertionError, NotImplementedError, TypeError, ValueError) as error:
        raise UserError(
            f"device = {short_repr(name)} is not available here; use cpu or auto."
        ) from error
    return chosen


def precision(name: str, where: torch.device) -> torch.dtype:
    """The torsos' number format; `auto` is bfloat16 where the hardware supports it."""
    if name == "auto":
        return torch.bfloat16 if _multiplies_bfloat16(where) else torch.float32
    return getattr(torch, name)


def _multiplies_bfloat16(where: torch.device) -> bool:
    if where.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def keep_freed_memory() -> None:
    """Make the C library reuse large blocks instead of returning them to the system after each operation.

    Each new page costs a page fault: convolutions of images spend up to half of their time on them.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "mallopt"):
        libc.mallopt(_MMAP_THRESHOLD, 32 * 2**20)  # the largest allowed value
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TOP_PAD, 64 * 2**20)


_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def num_threads(config: TrainingConfig) -> int:
    """Threads inside one operation; a setting of 0 means all cores that this process may use."""
    if config.num_threads:
        return config.num_threads
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def threads(config: TrainingConfig) -> Iterator[None]:
    """Use the configured number of threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads(config))
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def training_arithmetic(config: TrainingConfig) -> Iterator[None]:
    """Use the configured threads inside the block, and flush denormal numbers to 0, which is faster."""
    torch.set_flush_denormal(True)
    try:
        with threads(config):
            yield
    finally:
        torch.set_flush_denormal(False)


def prepared(network: Network, config: TrainingConfig) -> Network:
    """The network on the configured device, with the configured number format and memory layout."""
    where = device(config.device)
    conv_torsos.set_arithmetic(network, precision(config.precision, where), config.channels_last)
    return network.to(where)
