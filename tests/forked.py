"""Notebooks and kernels as forks of a process that has loaded what they load, which takes a fresh one seconds.

python forked.py OPTION...    JupyterLab whose kernels are such forks
"""

import functools
import json
import os
import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from ipykernel import kernelapp
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_client.provisioning.local_provisioner import LocalProvisioner

from workbench.headless import execute
from workbench.sweeps._warm import LOADS as TRAINS
from workbench.sweeps._warm import Warm, WarmCell

# What a look at runs loads: no torch.
LOOKS = [
    *("forked", "papermill", "ipykernel.ipkernel", "plotly.graph_objects", "scipy.stats", "anywidget"),
    *("sklearn.feature_extraction.text", "workbench.look.comparison", "workbench.look.paper_figures"),
    *("workbench.look.explorer", "workbench.look.run_picker", "workbench.look.pair_explorer"),
    "workbench.sweeps._prepared",
]


def warm(log: Path, loads: Sequence[str] = LOOKS) -> Warm:
    """The process that forks; its cells are told what `main` takes."""
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return Warm(log, {"PYTHONPATH": path}, loads=loads, cell="forked")


def main(told: str) -> None:
    """Executes the notebook "in" into "out", or becomes a kernel of these "arguments"."""
    given = json.loads(told)
    if "in" in given:
        return execute(Path(given["in"]), Path(given["out"]), given["parameters"])
    os.environ.clear()
    os.environ.update(given["environment"])
    os.chdir(given["folder"])
    ends_with = f"--IPKernelApp.parent_handle={os.getppid()}"  # of the environment, it was read when this was loaded
    sys.argv = ["ipykernel_launcher", *given["arguments"], ends_with]
    return kernelapp.launch_new_instance()


@functools.cache
def _of_the_lab() -> Warm:
    return warm(Path(os.environ["JUPYTER_CONFIG_DIR"], "forks.log"), [*TRAINS, *LOOKS])


class _Kernel:
    """What LocalProvisioner uses of `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, cell: WarmCell) -> None:
        self.poll, self.kill, self.terminate = cell.poll, cell.kill, cell.kill
        self.wait = functools.partial(cell.wait, 60)

    def send_signal(self, number: int) -> None:
        """None: an interruption is all that is sent, before a request to end, which is enough."""


class Forked(LocalProvisioner):
    """Has each kernel forked."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """As LocalProvisioner's."""
        facts = {"arguments": cmd[cmd.index("ipykernel_launcher") + 1 :], "environment": {**kwargs["env"]}}
        told = json.dumps(facts | {"folder": str(kwargs["cwd"])})
        self.process = _Kernel(_of_the_lab().begin(told, Path(os.environ["JUPYTER_CONFIG_DIR"], "kernels.log"), {}))
        return self.connection_info


def lab() -> None:
    """JupyterLab, with the options of the command line."""
    from jupyterlab.labapp import main as start

    _of_the_lab()  # it loads while the server does
    factory = KernelProvisionerFactory.instance()
    factory.provisioners["forked"] = EntryPoint("forked", "forked:Forked", factory.GROUP_NAME)
    factory.default_provisioner_name = "forked"
    sys.exit(start())


if __name__ == "__main__":
    import forked  # under the name that jupyter_client knows

    forked.lab()
