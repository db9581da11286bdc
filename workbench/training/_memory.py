"""Return freed memory to the system during a training on a CPU."""

import ctypes
import sys
from pathlib import Path

_GROWTH = 1.1  # of resident memory, after which freed memory is returned
_WINDOW = 10  # steps whose shapes show how much memory a step needs


class HeapTrimmer:
    """Return the memory that glibc keeps after it was freed, once a training grew by a tenth.

    Batches of ever other shapes fragment the heap: with 64 sentences in two views all-MiniLM has
    1.7 GB resident after 5 steps, and 2.1 GB and rising after 60 without this
    (benchmarks/memory.py).
    """

    def __init__(self) -> None:
        """Find glibc's `malloc_trim`; without it `after_step` does nothing."""
        library = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._trim = getattr(library, "malloc_trim", None)
        self._steps = 0
        self._needed = 0

    def after_step(self) -> None:
        """Trim the heap if resident memory has grown since the steps after the last time."""
        if not self._trim:
            return
        # The second number of the file is the resident part of the process, in pages.
        resident = int(Path("/proc/self/statm").read_text().split()[1])
        self._steps += 1
        if self._steps <= _WINDOW:
            self._needed = max(self._needed, resident)
        elif resident > _GROWTH * self._needed:
            self._trim(0)
            self._steps = 0
            self._needed = 0
