"""Arrays at whose ends memory ends: a kernel that reads or writes past them stops the process.

Linux alone, where `mprotect` can be called by its name. An array's own memory goes with the array.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SIDES = ("before", "behind")
_NO_ACCESS = 0


def walled(array: Array, side: str) -> Array:
    """A row-major copy; nothing "before" its first or "behind" its last element can be touched.

    OSError: the system refuses.
    """
    room = -(-array.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = np.frombuffer(mmap.mmap(-1, room + mmap.PAGESIZE), np.uint8)
    wall, start = (0, mmap.PAGESIZE) if side == "before" else (room, room - array.nbytes)
    place = ctypes.c_void_p(memory.ctypes.data + wall)
    if ctypes.CDLL(None, use_errno=True).mprotect(place, mmap.PAGESIZE, _NO_ACCESS):
        raise OSError(ctypes.get_errno(), "mprotect")
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
