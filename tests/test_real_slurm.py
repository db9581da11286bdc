"""The Slurm that the tests start: nothing of it outlives them."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from real_slurm import kill_processes, slurm

HOLDS = """
import time
from real_slurm import slurm
with slurm() as cluster:
    cluster.ask("sbatch", "--output=/dev/null", "--wrap=srun sleep 600")
    while not cluster.ask("squeue", "--noheader", "--states=running"):
        time.sleep(0.1)
    print(cluster.folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_a_test_run_that_is_killed_leaves_no_process_and_no_file_of_its_slurm(monkeypatch: pytest.MonkeyPatch):
    with slurm():  # otherwise the test is skipped
        pass
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with subprocess.Popen([sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True) as holding:
        folder = Path(holding.stdout.readline().strip())
        assert (folder / "slurm.conf").exists()
        holding.kill()
    deadline = time.monotonic() + 60
    while folder.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert not kill_processes(folder)
