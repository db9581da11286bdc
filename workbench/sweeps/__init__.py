"""Many runs: the missing ones of methods x settings x seeds, on this machine or a Slurm cluster."""

from workbench.sweeps._cells import (
    SWEEP_FILES as SWEEP_FILES,
    Cell as Cell,
    Sweep as Sweep,
    find_sweep as find_sweep,
    list_sweeps as list_sweeps,
    load_yaml as load_yaml,
    read_sweep_file as read_sweep_file,
)
from workbench.sweeps._processes import (
    Slurm as Slurm,
    cancel as cancel,
    queued as queued,
    sweep as sweep,
)
