"""A real Slurm of one node on this machine."""

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
from collections.abc import Iterator
from pathlib import Path

import pytest

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
SlurmdParameters=config_overrides
ReturnToService=2
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SchedulerParameters=batch_sched_delay=1,sched_interval=1,sched_min_interval=10000
KillWait=2
NodeName=n0 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=2 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """Slurm daemons of one node; commands need its `environment`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen] = []
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        port, node_port = _free_ports(2)
        values = {"folder": folder, "host": platform.node(), "user": getpass.getuser()}
        configuration = CONFIGURATION.format(**values, port=port, node_port=node_port)
        (folder / "slurm.conf").write_text(configuration)
        (folder / "state").mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def start(self) -> None:
        """Return when the node is idle. Raises RuntimeError with the logs' ends."""
        names = {
            "key-file": "munge.key",
            "log-file": "munged.log",
            "pid-file": "munged.pid",
            "seed-file": "munge.seed",
        }
        files = [
            f"--{name}={self.folder / file}"
            for name, file in (names | {"socket": "munge.socket"}).items()
        ]
        self._begin("munged", "--foreground", "--force", *files)
        while not (self.folder / "munge.socket").exists() and self.running[0].poll() is None:
            time.sleep(0.02)
        self._begin("slurmctld", "-D", "-c")
        self._begin("slurmd", "-D", "-N", "n0")
        deadline = time.monotonic() + 30
        while self.ask("sinfo", "--noheader", "--Node", "--format=%t").split() != ["idle"]:
            if time.monotonic() > deadline or any(each.poll() is not None for each in self.running):
                raise RuntimeError(
                    "\n".join(path.read_text()[-500:] for path in sorted(self.folder.glob("*.log")))
                )
            time.sleep(0.1)

    def ask(self, *command: str) -> str:
        """Return the output of a Slurm command."""
        environment = {**os.environ, **self.environment}
        return subprocess.run(
            command, capture_output=True, text=True, check=False, env=environment
        ).stdout

    def _begin(self, *command: str) -> None:
        environment = {**os.environ, **self.environment}
        with (self.folder / f"{command[0]}.out.log").open("a") as log:
            self.running.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))


def kill_processes(folder: Path) -> bool:
    """Kill all processes of this cluster; return whether there were any."""
    killed = False
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            inside = f"SLURM_CONF={folder}/slurm.conf".encode() in (
                path / "environ"
            ).read_bytes().split(b"\0")
            if inside and int(path.name) != os.getpid():
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
def slurm() -> Iterator[Slurm]:
    """Start a Slurm; the test is skipped, with the reason, if none can be started."""
    lacking = [
        program
        for program in PROGRAMS
        if shutil.which(program, path=f"{os.environ['PATH']}:/usr/sbin") is None
    ]
    if lacking:
        pytest.skip(
            f"no Slurm here ({', '.join(lacking)}): apt-get install slurmctld slurmd "
            "slurm-client munge"
        )
    # Not tmp_path: a socket's name has at most 107 letters.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    try:
        cluster = Slurm(folder)
    except (KeyError, OSError) as problem:  # a user without a name
        pytest.skip(f"no Slurm could be started: {problem}")
    outside = {name: value for name, value in os.environ.items() if name != "SLURM_CONF"}
    watcher = subprocess.Popen(
        [sys.executable, __file__, folder],
        stdin=subprocess.PIPE,
        start_new_session=True,
        env=outside,
    )
    try:
        try:
            cluster.start()
        except (OSError, RuntimeError) as problem:
            pytest.skip(f"no Slurm could be started: {problem}")
        with pytest.MonkeyPatch.context() as patch:
            # Those of a user's cluster, such as SBATCH_PARTITION, name nothing here.
            for name in [*os.environ]:
                if name.startswith(("SLURM_", "SBATCH_", "SRUN_", "SQUEUE_")):
                    patch.delenv(name)
            for name, value in cluster.environment.items():
                patch.setenv(name, value)
            yield cluster
    finally:
        watcher.communicate()
        for daemon in cluster.running:
            daemon.wait()


# End the cluster when the process that started it closes this pipe or is killed.
if __name__ == "__main__":
    sys.stdin.read()
    while kill_processes(Path(sys.argv[1])):
        time.sleep(0.05)
    shutil.rmtree(sys.argv[1], ignore_errors=True)
