"""Long time slices for a measurement on a busy machine."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_SYSTEM_CALL = {"x86_64": 314, "aarch64": 274}
"""The number of sched_setattr, which the C library does not offer."""
_LAYOUT, _SLICE = "<IIQiIQQQ", 100_000_000
"""Of struct sched_attr; nanoseconds."""


def ask_for_long_ones() -> bool:
    """Run for up to 100 ms at a time, with the same share of the cores; children do it too.

    Each change between programs empties the caches and slows down what follows. Linux 6.12 and later can
    do this; returns whether the system took it.
    """
    number = _SYSTEM_CALL.get(platform.machine())
    if sys.platform != "linux" or number is None:
        return False
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    asked = struct.pack(_LAYOUT, struct.calcsize(_LAYOUT), 0, 0, nice, 0, _SLICE, 0, 0)
    return ctypes.CDLL(None).syscall(number, 0, asked, 0) == 0
