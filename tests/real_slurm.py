"""A real Slurm of one or more nodes on this machine: started, nodes killed and started again, ended."""

import contextlib
import getpass
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

PYTHON = sys.executable  # tests replace it
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun")
CONFIGURATION = """
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
GresTypes=gpu
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SchedulerParameters=batch_sched_delay=1,sched_interval=1,sched_min_interval=10000
KillWait=2
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The daemons of a cluster; `environment` is what its commands need."""

    def __init__(self, folder: Path, nodes: int, cpus: int, gpus: int) -> None:
        self.folder = folder
        self.names = [f"n{number}" for number in range(nodes)]
        self.running: dict[str, subprocess.Popen] = {}
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        controller, *ports = _free_ports(1 + nodes)
        has = f"CPUs={cpus} RealMemory=1000" + (f" Gres=gpu:{gpus}" if gpus else "")
        described = [
            f"NodeName={name} NodeHostname={platform.node()} NodeAddr=127.0.0.1 Port={port} {has}"
            for name, port in zip(self.names, ports, strict=True)
        ]
        known = {"folder": folder, "host": platform.node(), "user": getpass.getuser(), "port": controller}
        (folder / "slurm.conf").write_text(CONFIGURATION.format(**known, nodes="\n".join(described)))
        for number in range(gpus):
            (folder / f"gpu{number}").touch()
        (folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={folder}/gpu[0-{gpus - 1}]\n" if gpus else "")
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def start(self) -> None:
        """Returns when every node is there. Raises RuntimeError with the logs' ends."""
        names = {"key-file": "munge.key", "log-file": "munged.log", "pid-file": "munged.pid", "seed-file": "munge.seed"}
        files = [f"--{name}={self.folder / file}" for name, file in (names | {"socket": "munge.socket"}).items()]
        self._begin("munged", "munged", "--foreground", "--force", *files)
        while not (self.folder / "munge.socket").exists() and self.running["munged"].poll() is None:
            time.sleep(0.02)
        self._begin("slurmctld", "slurmctld", "-D", "-c")
        for name in self.names:
            self.start_node(name)
        deadline = time.monotonic() + 30
        while self.ask("sinfo", "--noheader", "--Node", "--format=%t").split() != ["idle"] * len(self.names):
            if time.monotonic() > deadline or any(each.poll() is not None for each in self.running.values()):
                raise RuntimeError("\n".join(path.read_text()[-500:] for path in sorted(self.folder.glob("*.log"))))
            time.sleep(0.1)

    def start_node(self, name: str) -> None:
        """Starts a node's daemon, for the first time or again."""
        self._begin(name, "slurmd", "-D", "-N", name)
        if "down" in self.ask("sinfo", "--noheader", f"--nodes={name}", "--format=%t"):
            self.ask("scontrol", "update", f"nodename={name}", "state=resume")

    def kill_node(self, name: str) -> None:
        """Ends a node as a power cut does: its daemon and all that ran under it.

        The controller is told, which else finds out by itself, after minutes.
        """
        self.running[name].kill()
        kill_processes(self.folder, spare=("slurmctld", "slurmd", "munged"))
        self.running.pop(name).wait()
        self.ask("scontrol", "update", f"nodename={name}", "state=down", "reason=killed")

    def ask(self, *command: str) -> str:
        """What a command of Slurm says."""
        environment = {**os.environ, **self.environment}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout

    def _begin(self, name: str, *command: str) -> None:
        environment = {**os.environ, **self.environment}
        with (self.folder / f"{name}.out.log").open("a") as log:
            self.running[name] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)


def kill_processes(folder: Path, spare: Collection[str] = ()) -> bool:
    """Kill all processes of this cluster except for programs of these names; return whether there were any."""
    killed = False
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            inside = f"SLURM_CONF={folder}/slurm.conf".encode() in (path / "environ").read_bytes().split(b"\0")
            if inside and int(path.name) != os.getpid() and (path / "comm").read_text().strip() not in spare:
                os.kill(int(path.name), signal.SIGKILL)
                killed = True
    return killed


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@contextlib.contextmanager
def slurm(nodes: int = 1, cpus: int = 2, gpus: int = 0) -> Iterator[Slurm]:
    """A Slurm that runs, of cores and GPUs in name; the test is skipped, with the reason, where none can be started."""
    lacking = [program for program in PROGRAMS if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    if lacking:
        pytest.skip(f"no Slurm here ({', '.join(lacking)}): apt-get install slurmctld slurmd slurm-client munge")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # not tmp_path: a socket's name has at most 107 letters
    cluster = Slurm(folder, nodes, cpus, gpus)
    outside = {name: value for name, value in os.environ.items() if name != "SLURM_CONF"}
    watcher = subprocess.Popen([PYTHON, __file__, folder], stdin=subprocess.PIPE, start_new_session=True, env=outside)
    try:
        try:
            cluster.start()
        except (OSError, RuntimeError) as problem:
            pytest.skip(f"no Slurm could be started: {problem}")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in cluster.environment.items():
                patch.setenv(name, value)
            yield cluster
    finally:
        watcher.communicate()
        for daemon in cluster.running.values():
            daemon.wait()


if __name__ == "__main__":  # end the cluster when the process that started it closes this pipe or is killed
    sys.stdin.read()
    while kill_processes(Path(sys.argv[1])):
        time.sleep(0.05)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
