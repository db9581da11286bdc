"""A kernel that waits, all loaded, for the notebook of a cell: jupyter_client takes it instead of starting one."""

import json
import os
import signal
import sys
from importlib.metadata import EntryPoint
from typing import Any, NoReturn

from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

_waiting: tuple[int, int] | None = None  # its process, and where it is told what to do


def prepare_kernel() -> None:
    """Forks the kernel, before this process has threads; the first notebook that this process runs gets it."""
    global _waiting  # noqa: PLW0603 - jupyter_client makes the provisioner, and knows nothing of what waits
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(writer)
        _become_kernel(reader)
    os.close(reader)
    _waiting = process, writer
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["prepared"] = EntryPoint("prepared", f"{__name__}:Prepared", factory.GROUP_NAME)
    factory.default_provisioner_name = "prepared"


class Prepared(LocalProvisioner):
    """Gives the command of a kernel to the process that waits for it."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """As LocalProvisioner's; a second kernel is started as usual."""
        global _waiting
        if _waiting is None:
            return await super().launch_kernel(cmd, **kwargs)
        (self.pid, writer), _waiting = _waiting, None
        self.process, self.pgid = _Process(self.pid), self.pid
        # JPY_PARENT_PID was read when ipykernel was loaded, before there was a cell.
        arguments = [*cmd[cmd.index("ipykernel_launcher") + 1 :], f"--IPKernelApp.parent_handle={os.getpid()}"]
        facts = {"arguments": arguments, "environment": dict(kwargs.get("env") or os.environ)}
        with os.fdopen(writer, "w") as told:
            json.dump(facts | {"folder": kwargs.get("cwd") or os.getcwd()}, told)  # noqa: PTH109
        return self.connection_info


class _Process:
    """What LocalProvisioner uses of `subprocess.Popen`, of a process that was forked."""

    stdin = stdout = stderr = None

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        return self._ended(os.WNOHANG)

    def wait(self) -> int | None:
        return self._ended(0)

    def _ended(self, how: int) -> int | None:
        if self.returncode is None:
            process, status = os.waitpid(self.pid, how)
            self.returncode = os.waitstatus_to_exitcode(status) if process else None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _become_kernel(reader: int) -> NoReturn:
    """Waits until it is told which kernel it is; ends where nobody is left to say so."""
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with os.fdopen(reader) as told:
        text = told.read()
    if not text:
        os._exit(0)
    facts = json.loads(text)
    os.environ.clear()
    os.environ.update(facts["environment"])
    os.chdir(facts["folder"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.argv = ["ipykernel_launcher", *facts["arguments"]]
    from ipykernel import kernelapp

    kernelapp.launch_new_instance()
    sys.exit(0)
