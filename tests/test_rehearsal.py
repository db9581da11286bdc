"""The documented commands with small stand-ins for checkpoints and data: their notebooks end well in every branch."""

import errno
import json
import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from forking import python
from rehearsal import DECIDES, chosen, collected, deciding, documented, looking, table

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


def test_commands_that_only_look_are_rehearsed_too():
    trains = "workbench run simcse  # trains\nworkbench sweep simcse --seeds 0-4\nworkbench show | rm"
    text = f"```\n{trains}\nworkbench runs  # all\nworkbench data list | check | fetch\n```\n"
    assert looking(text) == ["workbench data check", "workbench runs", "workbench data list"]


@pytest.mark.parametrize("how", ["in a command", "in the stand-ins"])
def test_without_space_on_the_disk_what_ended_before_is_kept_and_said(how: str, tmp_path: Path):
    def rows() -> Iterator[dict]:
        yield {"command": "first", "exit": 0, "seconds": 1.0, "failed": ""}
        if how == "in a command":
            yield {"command": "second", "exit": 1, "seconds": 1.0, "failed": "RunError: No space left on device"}
        raise OSError(errno.ENOSPC, "No space left on device")

    kept, said = collected(rows(), tmp_path)
    assert [row["command"] for row in kept] == ["first"]
    assert said == f"no space left under {tmp_path}: 1 commands ended before that; free some, or give TMPDIR=FOLDER"
    assert table(kept).splitlines()[1] == "first     0      1.0"


@pytest.mark.slow
def test_a_file_system_that_takes_no_more_ends_the_rehearsal_in_words(tmp_path: Path):
    """Files of 16 MiB at most, into which the stand-in of a large encoder does not fit."""
    command = [python(), HERE / "rehearsal.py", "--method", "simcse", "--out", tmp_path / "rows.json"]
    full = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**24, 2**24)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert full.returncode == 1
    assert f"no space left under {tmp_path}" in full.stderr
    kept = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert f"{len(kept)} rehearsed, 0 failed" in full.stdout
    assert not list(tmp_path.glob("tmp*")), "it takes away what it made"


@pytest.mark.slow
def test_every_branch_of_the_documented_commands_ends_well(tmp_path: Path):
    """Where the hub's cache lies libraries read once, when they are loaded: not yet in what this is a fork of."""
    command = [python("rest"), HERE / "rehearsal.py", "--chosen", "--out", tmp_path / "rows.json"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "JUPYTER_PATH": str(Path(python("rest")).parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr[-3000:]
    rows = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert len(rows) > 35
    assert [row for row in rows if row["failed"]] == []
