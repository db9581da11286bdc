"""A class: the notebooks of a lesson."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from typer.testing import CliRunner

from workbench.commands.app import app
from workbench.execution import execute_lesson

LESSONS = ["00_tour", "10_simcse", "11_rankcse", "17_lists", "30_failures"]


def call(*words: object) -> Any:
    return CliRunner().invoke(app, ["class", *map(str, words)], catch_exceptions=False)


def read(path: Path) -> Any:
    content = nbformat.read(path, as_version=4)
    nbformat.validate(content)
    return content


def texts(path: Path) -> str:
    return "\n".join(cell.source for cell in read(path).cells)


@pytest.mark.parametrize("lesson", LESSONS)
def test_students_get_no_solution_and_teachers_an_open_one(tmp_path: Path, lesson: str):
    call("make", tmp_path / "a", lesson)
    call("make", tmp_path / "b", lesson, "--for", "teachers")
    students = texts(tmp_path / "a" / f"{lesson}.ipynb")
    teachers = texts(tmp_path / "b" / f"{lesson}.ipynb")
    assert "<summary>Solution" not in students
    assert "<summary><b>Answer" not in students
    assert teachers.count("<details open>") == (
        teachers.count("<summary>Solution") + teachers.count("<summary><b>Answer")
    )
    assert 'teaching.sign("")  # your name' in students
    assert "teaching.sign(" not in teachers
    # No link leads out of the folder.
    assert "](../docs" not in students + teachers
    assert ".ipynb)" not in students + teachers
    cells = read(tmp_path / "a" / f"{lesson}.ipynb").cells
    assert all(cell.source.strip() for cell in cells)
    place = next(place for place, cell in enumerate(cells) if cell.id == "sign")
    assert "parameters" in cells[place - 2].metadata.tags
    assert len({cell.id for cell in cells}) == len(cells)


def test_a_lesson_has_the_two_notebooks_and_what_is_written_in_them_stays(tmp_path: Path):
    assert call("make", tmp_path).output.count("written: ") == 2
    (tmp_path / "10_simcse.ipynb").write_text("mine")
    (tmp_path / "00_tour.ipynb").unlink()
    output = call("make", tmp_path).output
    assert f"kept: {tmp_path / '10_simcse.ipynb'}" in output
    assert f"written: {tmp_path / '00_tour.ipynb'}" in output
    assert (tmp_path / "10_simcse.ipynb").read_text() == "mine"


def test_an_unknown_lesson_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no lesson '10_simce'.*did you mean '10_simcse'"):
        call("make", tmp_path, "10_simce")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("audience", ["students", "teachers"])
def test_the_cells_of_nbgrader(tmp_path: Path, audience: str):
    call("make", tmp_path, "10_simcse", "--nbgrader", "--for", audience)
    cells = read(tmp_path / "10_simcse.ipynb").cells
    graded = [cell for cell in cells if "nbgrader" in cell.metadata]
    answers, tests = graded[::2], graded[1::2]
    assert len(answers) == len(tests) == 3
    names = [cell.metadata.nbgrader.grade_id for cell in graded]
    assert names == ["10-14", "10-14-test", "10-16", "10-16-test", "10-18", "10-18-test"]
    for cell in answers:
        shared = {"schema_version": 3, "task": False, "grade_id": cell.id}
        expected = shared | {"grade": False, "locked": False, "solution": True}
        assert cell.metadata.nbgrader == expected
        assert "check_answer" not in cell.source
        assert ("### BEGIN SOLUTION" in cell.source) == (audience == "teachers")
    for cell in tests:
        shared = {"schema_version": 3, "task": False, "grade_id": cell.id}
        expected = shared | {"grade": True, "locked": True, "solution": False, "points": 1}
        assert cell.metadata.nbgrader == expected
        assert "verdict = teaching.check_answer(" in cell.source
        assert cell.source.endswith('assert verdict.startswith("Right"), verdict')
    # nbgrader would release the text of a solution to the students.
    assert "<summary>Solution" not in "\n".join(cell.source for cell in cells)


def test_nbgrader_releases_the_notebook_of_teachers(tmp_path: Path):
    pytest.importorskip("nbgrader")
    call("make", tmp_path / "source" / "simcse", "10_simcse", "--nbgrader", "--for", "teachers")
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "simcse", "--create"]
    subprocess.run(command, cwd=tmp_path, check=True, env=dict(os.environ))
    cells = read(tmp_path / "release" / "simcse" / "10_simcse.ipynb").cells
    answers = [cell.source for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
    assert len(answers) == 3
    assert all("raise NotImplementedError()" in answer for answer in answers)


@pytest.mark.slow
def test_an_executed_page_is_written_once(tmp_path: Path):
    call("make", tmp_path, "00_tour")
    page = tmp_path / "00_tour.html"
    assert execute_lesson(tmp_path / "00_tour.ipynb") == f"written: {page}"
    assert "Spearman" in page.read_text(encoding="utf-8")
    assert execute_lesson(tmp_path / "00_tour.ipynb") == f"kept: {page}"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00_tour.html", "00_tour.ipynb"]
