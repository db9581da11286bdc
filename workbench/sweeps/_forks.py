"""A process that loads modules, and then becomes a cell, and its kernel, by a fork: `python -m ... MODULE...`.

It reads lines of JSON, {"start": number, ...}, {"end": number} or {"kill": number}, and writes one, {"number", "code"},
for each cell that is over, with number 0 when all is loaded, and code NO_FORK for a cell that the system had no room
for, whose message stands on stderr. A cell is a process of its own: one that crashes harms no
other. This one touches no GPU and has no threads (but one of jemalloc's, which minds forks): neither outlives a fork.
For Linux: macOS allows none after some libraries were loaded.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import sys
from typing import Any, NoReturn

from workbench.sweeps._process import NO_FORK

_BETWEEN = 0.05  # seconds between two looks at what ended


class _Cells:
    """Number -> process, and the pipe at whose end the cell ends, which is closed when this process is gone too."""

    def __init__(self, answers: int) -> None:
        self.answers = answers
        self.processes: dict[int, int] = {}
        self.pipes: dict[int, int] = {}

    def hear(self, told: dict[str, Any]) -> None:
        if "start" in told:
            try:
                process, reader, writer = _fork()
            except OSError as problem:  # harms no cell that runs
                print(f"no cell can be started: {problem}", file=sys.stderr, flush=True)
                self.answer(told["start"], NO_FORK)
                return
            if process == 0:
                _become(told, reader, [*self.pipes.values(), writer, self.answers])
            os.close(reader)
            self.processes[told["start"]], self.pipes[told["start"]] = process, writer
        elif told.get("end") in self.pipes:
            os.close(self.pipes.pop(told["end"]))
        elif told.get("kill") in self.processes:
            os.kill(self.processes[told["kill"]], signal.SIGKILL)

    def tell_ended(self) -> None:
        for number, process in list(self.processes.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                del self.processes[number]
                if number in self.pipes:
                    os.close(self.pipes.pop(number))
                self.answer(number, os.waitstatus_to_exitcode(status))

    def answer(self, number: int, code: int) -> None:
        os.write(self.answers, f"{json.dumps({'number': number, 'code': code})}\n".encode())


def main(modules: list[str]) -> None:
    """Forks cells until stdin is at its end; then all of them end."""
    cells = _Cells(os.dup(1))
    os.dup2(2, 1)
    for name in modules:
        with contextlib.suppress(Exception):  # the cell, which loads it again, says what is wrong with it
            importlib.import_module(name)
    cells.answer(0, 0)  # all is loaded
    rest = b""
    while True:
        if select.select([0], [], [], _BETWEEN)[0]:
            text = os.read(0, 65536)
            if not text:
                return
            *lines, rest = (rest + text).split(b"\n")
            for line in lines:
                cells.hear(json.loads(line))
        cells.tell_ended()


def _fork() -> tuple[int, int, int]:
    """The process, 0 in the cell itself, and the two ends of its pipe. Raises OSError and leaves nothing open."""
    reader, writer = os.pipe()
    try:
        return os.fork(), reader, writer
    except OSError:
        os.close(reader)
        os.close(writer)
        raise


def _become(facts: dict[str, Any], stdin: int, foreign: list[int]) -> NoReturn:
    """From here on this process is a cell."""
    os.setsid()
    for handle in foreign:
        os.close(handle)
    log = os.open(facts["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    for handle, standard in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(handle, standard)
    os.close(stdin)
    os.close(log)
    sys.stdout, sys.stderr = (os.fdopen(handle, "w", buffering=1, errors="replace") for handle in (1, 2))
    os.environ.update(facts["environment"])
    from workbench.sweeps._prepared import prepare_kernel

    prepare_kernel()
    importlib.import_module(facts["module"]).main(facts["arguments"])
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
