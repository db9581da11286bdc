"""The documented commands run with small stand-ins for checkpoints and data, in every branch of their notebooks."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from forking import python
from rehearsal import BRANCHING, branch, choose, other_commands, training_commands

from workbench.config import CONFIGS

HERE = Path(__file__).resolve().parent


def test_the_chosen_commands_cover_every_value_of_every_branching_setting():
    def values(group: list, method: str, name: str) -> set[str]:
        return {branch(config, name) for _, config in group if config.method == method}

    commands = training_commands()
    chosen = choose(commands)
    for method in CONFIGS:
        for name in BRANCHING[method]:
            assert values(chosen, method, name) == values(commands, method, name)


def test_commands_that_train_nothing_are_rehearsed_too():
    trains = "workbench run simcse  # trains\nworkbench sweep simcse --seeds 0-4\nworkbench show | rm"
    text = f"```\n{trains}\nworkbench runs  # all\nworkbench data list | check\n```\n"
    assert other_commands(text) == ["workbench data check", "workbench runs", "workbench data list"]


@pytest.mark.slow
def test_every_branch_of_the_documented_commands_passes():
    """Libraries read the place of the hub's cache when they are imported, so nothing of them is preloaded here."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "JUPYTER_PATH": str(Path(python("rest")).parent)}
    command = [python("rest"), HERE / "rehearsal.py", "--chosen"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert int(re.search(r"(\d+) rehearsed, 0 failed", done.stdout)[1]) > 25
