"""A `python` command that forks a process with loaded modules, and so starts much faster.

The commands are used like any other, also in a kernelspec. "looks/python" has loaded the views of
runs, without torch; "trains/python" everything for training; "tests/python" torch and other
libraries, but no module of the workbench. Each loads its modules on first use. Output, exit code
and signals are those of the fork, and so is the limit on file sizes. All forks share one hash seed,
so that a dependence on the order of a set appears only in fresh processes."""

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy


class Loaded(NamedTuple):
    """Process that forks on request: its imported modules and the processes forked from it."""

    name: str
    modules: Sequence[str]
    below: Sequence["Loaded"] = ()

    @property
    def names(self) -> list[str]:
        return [self.name, *(name for one in self.below for name in one.names)]


LOOKS = [
    f"workbench.{name}"
    for name in ("commands.app", "execution", "views.comparison", "views.papers", "views.explorer")
]
LOOKS += ["workbench.views.run_picker", "workbench.views.pair_explorer"]
TRAINS = [
    f"workbench.{name}" for name in ("commands.app", "methods", "training", "evaluation", "views")
]
TORCH = [
    *("torch.distributed.run", "transformers.models.auto.modeling_auto"),
    *("transformers.models.auto.tokenization_auto", "transformers.models.bert.modeling_bert"),
]
REST = [
    *(
        "pandas",
        "pydantic",
        "scipy.stats",
        "sklearn.feature_extraction.text",
        "plotly.io",
        "plotly.graph_objects",
    ),
    *(
        "papermill",
        "ipykernel.kernelapp",
        "ipykernel.ipkernel",
        "ipykernel.debugger",
        "anywidget",
        "typer.rich_utils",
    ),
]
TREE = Loaded(
    "rest", REST, [Loaded("looks", LOOKS), Loaded("tests", TORCH, [Loaded("trains", TRAINS)])]
)
# Program of each command: it requests a fork and relays its output, signals and exit code. It
# starts as a shell script, whose exec Python reads as a text: the path of Python in a #! line may
# be neither long nor contain a space. It connects from the socket's folder, as the path of a socket
# may have 107 characters only.
ASKS = """#!/bin/sh
'''exec' {python} -SE "$0" "$@"
' '''
import json, os, resource, signal, socket, sys

told = dict(arguments=sys.argv[1:], environment=dict(os.environ))
told |= dict(folder=os.getcwd(), executable={executable!r})
server = socket.socket(socket.AF_UNIX)
os.chdir({folder!r})
server.connect("socket")
told = json.dumps(told | dict(limits=resource.getrlimit(resource.RLIMIT_FSIZE))).encode()
socket.send_fds(server, [b"%8d" % len(told)], [0, 1, 2])
server.sendall(told)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: server.sendall(bytes([number])))
code = int(server.recv(8) or -signal.SIGKILL)
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def python(name: str = "trains") -> str:
    """Return the program of that name; without support for forks, this interpreter."""
    folder = os.environ.get("WORKBENCH_PYTHONS")
    return f"{folder}/{name}/python" if folder else sys.executable


@contextlib.contextmanager
def pythons(folder: Path, *, bare: bool = False) -> Iterator[None]:
    """Write the programs into a folder; the forking process and the folder end with the context.

    Of a bare process only "rest/python" is answered, and it has loaded nothing.
    """
    for name in TREE.names:
        program, kernel = (
            folder / name / "python",
            folder / name / "kernels" / "python3" / "kernel.json",
        )
        kernel.parent.mkdir(parents=True)
        # Subprocesses of tests are not forks.
        then = sys.executable if name == "tests" else str(program)
        asks = ASKS.format(
            python=shlex.quote(sys.executable), folder=str(program.parent), executable=then
        )
        program.write_text(asks, encoding="utf-8")
        program.chmod(0o755)
        argv = [str(program), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel.write_text(
            json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"})
        )
    environment = {**os.environ, "PLOTLY_RENDERER": "plotly_mimetype"}  # the default in a kernel
    # Otherwise the debugger of kernels prints a warning.
    environment["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"
    command = [sys.executable, __file__, folder, *(["bare"] if bare else [])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:
        while not (folder / TREE.names[-1] / "socket").exists():
            assert process.poll() is None, "the process that forks has ended; it printed why"
            time.sleep(0.01)
        yield
        process.communicate()


def serve(folder: Path, *, bare: bool) -> None:
    """Fork on request until stdin ends; then remove the folder."""
    # Meant for the tests, whose end it waits for to end its own forks.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    listeners = {name: socket.socket(socket.AF_UNIX) for name in TREE.names}
    for name, listener in listeners.items():
        with contextlib.chdir(folder / name):
            listener.bind("socket")
        listener.listen(64)
    own = os.getpid()
    if 0 not in select.select([0, *listeners.values()], [], [])[0]:
        if bare:
            _fork_from(Loaded("rest", ()), listeners)
        else:
            _draw()
            _fork_from(TREE, listeners)
    if os.getpid() == own:  # a test run that was killed leaves the folder to it
        shutil.rmtree(folder, ignore_errors=True)


def _draw() -> None:
    """Build a figure; the first one of a process takes 0.3 s for plotly's tables and template."""
    from plotly.graph_objects import Figure, Scatter

    Figure(Scatter(x=[0], y=[0]), {"template": "plotly"})._repr_mimebundle_()


def _fork_from(loaded: Loaded, listeners: dict[str, socket.socket]) -> None:
    """Import modules and fork on request of a listener; start forking processes below as needed.

    Returns when stdin ends, in each of these processes.
    """
    for name in loaded.modules:
        importlib.import_module(name)
    gc.freeze()  # otherwise the first collection in each fork copies every page
    listener, below = listeners[loaded.name], list(loaded.below)
    children: dict[int, tuple[int, socket.socket]] = {}
    forks: list[int] = []
    while True:
        waiting = [listeners[name] for one in below for name in one.names]
        ready = select.select(
            [0, listener, *waiting, *children, *(asked for _, asked in children.values())], [], []
        )[0]
        if 0 in ready:
            # Otherwise they would run on and nothing would end them.
            for process, _ in children.values():
                os.kill(process, signal.SIGKILL)
            for process in forks:
                os.waitpid(process, 0)
            return
        for one in [one for one in below if any(listeners[name] in ready for name in one.names)]:
            process = os.fork()
            if not process:
                _fork_from(one, listeners)
                return
            forks.append(process)
            below.remove(one)
        _tend(children, ready)
        if listener in ready:
            asked = listener.accept()[0]
            length, handles, *_ = socket.recv_fds(asked, 8, 3)
            if not length:  # the client was killed before it sent its request
                asked.close()
                continue
            request = json.loads(asked.recv(int(length), socket.MSG_WAITALL))
            process = os.fork()
            if not process:
                for each in (
                    asked,
                    *listeners.values(),
                    *(other for _, other in children.values()),
                ):
                    each.close()
                _become(request, handles)
            for handle in handles:
                os.close(handle)
            children[os.pidfd_open(process)] = process, asked


def _tend(children: dict[int, tuple[int, socket.socket]], ready: Sequence[Any]) -> None:
    """Report ended processes and forward signals; kill a process whose client is gone."""
    for handle, (process, asked) in list(children.items()):
        if handle in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with contextlib.suppress(OSError):  # the client has ended
                asked.sendall(b"%d" % code)
            asked.close()
            os.close(handle)
            del children[handle]
        elif asked in ready:
            for number in asked.recv(64) or [signal.SIGKILL]:
                os.kill(process, number)


def _become(request: dict[str, Any], handles: Sequence[int]) -> NoReturn:
    """Turn this process into the requested one."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for standard, handle in enumerate(handles):
        os.dup2(handle, standard)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(*how, 1, closefd=False) for how in ((0, "r"), (1, "w"), (2, "w"))
    )
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # recomputed from the new environment
    resource.setrlimit(resource.RLIMIT_FSIZE, request["limits"])
    sys.executable = request["executable"]
    # As `random` does by itself; otherwise all forks would draw the same numbers.
    numpy.random.seed()
    kind, *rest = (word for word in request["arguments"] if word != "-u")
    sys.path[0] = str(Path(kind).parent.resolve()) if kind not in ("-c", "-m") else ""
    more = request["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in more if path not in sys.path]
    sys.argv = rest if kind in ("-c", "-m") else [kind, *rest]
    code: Any = 0
    try:
        if kind == "-c":
            exec(rest[0], {"__name__": "__main__"})
        elif kind == "-m":
            # Which read its parent from the environment when it was loaded.
            if rest[0] == "ipykernel_launcher":
                sys.argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise  # so that its text is printed
        code = ended.code or 0
    _exit(code)


def _exit(code: int) -> NoReturn:
    """End like `sys.exit`, but free no objects: this would copy nearly every page of the fork."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    serve(Path(sys.argv[1]), bare="bare" in sys.argv[2:])
