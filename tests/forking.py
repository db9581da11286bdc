"""A `python` that is a fork of one that has loaded everything: it starts in a moment, where a fresh one takes seconds.

Two of them, to be started like any other and to stand in a kernelspec: "looks/python" has loaded what looks at runs,
without torch, "trains/python" all that trains; each loads with the first that is asked for. What one prints, how it
ends and which signal it gets are those of its fork; of the limits, that of a file's size is.
"""

import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

LOOKS = [
    *(
        "papermill",
        "ipykernel.kernelapp",
        "ipykernel.ipkernel",
        "plotly.io",
        "plotly.graph_objects",
        "scipy.stats",
        "anywidget",
    ),
    *("sklearn.feature_extraction.text", "workbench.look.comparison", "workbench.look.paper_figures"),
    *("workbench.look.explorer", "workbench.look.run_picker", "workbench.look.pair_explorer", "workbench.headless"),
]
TRAINS = [
    *("transformers.models.auto.modeling_auto", "transformers.models.auto.tokenization_auto"),
    *("transformers.models.bert.modeling_bert", "torch.distributed.run", "workbench.methods", "workbench.baselines"),
    *("workbench.train", "workbench.evaluation", "workbench.look"),
]
# The program of both: it asks for a fork, and is, to whoever started it, what that is.
ASKS = """#!{python} -SE
import json, os, resource, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
told = dict(arguments=sys.argv[1:], environment=dict(os.environ), folder=os.getcwd(), executable=__file__)
told = json.dumps(told | dict(limits=resource.getrlimit(resource.RLIMIT_FSIZE))).encode()
socket.send_fds(server, [b"%8d" % len(told)], [0, 1, 2])
server.sendall(told)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, lambda number, _: server.sendall(bytes([number])))
code = int(server.recv(8) or -signal.SIGKILL)
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


def python(name: str = "trains") -> str:
    """The program of that name; where the system has no such forks, the one that runs the tests."""
    folder = os.environ.get("WORKBENCH_PYTHONS")
    return f"{folder}/{name}/python" if folder else sys.executable


@contextlib.contextmanager
def pythons(folder: Path) -> Iterator[None]:
    """Writes both programs into a folder; the process that forks ends with the context."""
    for name in ("looks", "trains"):
        program, kernel = folder / name / "python", folder / name / "kernels" / "python3" / "kernel.json"
        kernel.parent.mkdir(parents=True)
        program.write_text(ASKS.format(python=sys.executable, socket=f"{folder}/{name}/socket"))
        program.chmod(0o755)
        argv = [str(program), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        kernel.write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    environment = {**os.environ, "PLOTLY_RENDERER": "plotly_mimetype"}  # what it chooses by itself in a kernel
    with subprocess.Popen([sys.executable, __file__, folder], stdin=subprocess.PIPE, env=environment) as process:
        while not (folder / "trains" / "socket").exists():
            assert process.poll() is None
        yield
        process.communicate()


def serve(folder: Path) -> None:
    """Forks what is asked for, until stdin is at its end."""
    listeners = [socket.socket(socket.AF_UNIX) for _ in range(2)]
    for name, listener in zip(("looks", "trains"), listeners, strict=True):
        listener.bind(f"{folder}/{name}/socket")
        listener.listen(64)
    if 0 not in select.select([0, *listeners], [], [])[0]:
        _fork_from(LOOKS, *listeners)


def _fork_from(modules: Sequence[str], listener: socket.socket, *next_listener: socket.socket) -> None:
    """Loads modules and forks what `listener` is asked for; the first that asks the next one makes a process for it."""
    for name in modules:
        importlib.import_module(name)
    gc.freeze()  # else the first collection in each fork copies every page
    children: dict[int, tuple[int, socket.socket]] = {}
    waiting, forks = list(next_listener), 0
    while True:
        ready = select.select([0, listener, *waiting, *children, *(asked for _, asked in children.values())], [], [])[0]
        if 0 in ready:
            return os._exit(os.waitpid(forks, 0)[1] if forks else 0)
        if waiting and waiting[0] in ready:
            forks = os.fork()
            if not forks:
                return _fork_from(TRAINS, waiting[0])
            waiting = []
        _tend(children, ready)
        if listener in ready:
            asked = listener.accept()[0]
            length, handles, *_ = socket.recv_fds(asked, 8, 3)
            told = json.loads(asked.recv(int(length), socket.MSG_WAITALL))
            process = os.fork()
            if not process:
                for one in (listener, asked, *waiting, *(other for _, other in children.values())):
                    one.close()
                _become(told, handles)
            for handle in handles:
                os.close(handle)
            children[os.pidfd_open(process)] = process, asked


def _tend(children: dict[int, tuple[int, socket.socket]], ready: Sequence[Any]) -> None:
    """Says how those ended that did, and passes signals on; one whose asker is gone is killed."""
    for handle, (process, asked) in list(children.items()):
        if handle in ready:
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            with contextlib.suppress(OSError):  # nobody waits for it
                asked.sendall(b"%d" % code)
            asked.close()
            os.close(handle)
            del children[handle]
        elif asked in ready:
            for number in asked.recv(64) or [signal.SIGKILL]:
                os.kill(process, number)


def _become(told: dict[str, Any], handles: Sequence[int]) -> NoReturn:
    """From here on this process is the one that was asked for."""
    os.setsid()
    for standard, handle in enumerate(handles):
        os.dup2(handle, standard)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(*how, 1, closefd=False) for how in ((0, "r"), (1, "w"), (2, "w")))
    os.chdir(told["folder"])
    os.environ.clear()
    os.environ.update(told["environment"])
    tempfile.tempdir = None  # as that says
    resource.setrlimit(resource.RLIMIT_FSIZE, told["limits"])
    sys.executable = told["executable"]
    kind, *rest = (word for word in told["arguments"] if word != "-u")
    sys.path[0] = str(Path(kind).parent.resolve()) if kind not in ("-c", "-m") else ""
    more = told["environment"].get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in more if path not in sys.path]
    sys.argv = rest if kind in ("-c", "-m") else [kind, *rest]
    if kind == "-c":
        exec(rest[0], {"__name__": "__main__"})
    elif kind == "-m":
        if rest[0] == "ipykernel_launcher":  # which read its parent from the environment when it was loaded
            sys.argv.append(f"--IPKernelApp.parent_handle={os.getppid()}")
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(kind, run_name="__main__")
    sys.exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
