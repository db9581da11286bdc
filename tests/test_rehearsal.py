"""The documented commands with small stand-ins for checkpoints and data: their notebooks end well in every branch."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rehearsal import DECIDES, chosen, deciding, documented

from workbench.config import CONFIGS

HERE = Path(__file__).resolve().parent


def test_the_chosen_commands_show_every_value_of_every_deciding_setting():
    commands = documented()
    taken = chosen(commands)
    for method in CONFIGS:
        for name in DECIDES[method]:
            values, shown = (
                {deciding(config, name) for _, config in group if config.method == method}
                for group in (commands, taken)
            )
            assert shown == values


@pytest.mark.slow
def test_every_branch_of_the_documented_commands_ends_well(tmp_path: Path):
    """A process of its own: the libraries read where the hub's cache lies once, when they are loaded."""
    command = [sys.executable, HERE / "rehearsal.py", "--chosen", "--out", tmp_path / "rows.json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    rows = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert len(rows) > 35
    assert [row for row in rows if row["failed"]] == []
