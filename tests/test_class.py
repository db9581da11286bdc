"""A class: the notebooks of a lesson, and the board of its students."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from typer.testing import CliRunner
from written_runs import SUITE, write_run

from workbench import views
from workbench.commands.app import app
from workbench.config import CompCSEConfig, SimCSEConfig
from workbench.errors import RunError, SettingError
from workbench.execution import execute_lesson
from workbench.lessons import collect_pages
from workbench.runs import Run

LESSONS = ["00_tour", "10_simcse", "11_rankcse", "17_lists", "30_failures"]
HEADER = "time,name,notebook,exercise,right,answer,gain\n"


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


def test_slides_for_students_have_no_solutions_and_the_figures_of_the_executed_copy(tmp_path: Path):
    call("slides", "10_simcse", "--to", tmp_path / "a")
    call("slides", "10_simcse", "--to", tmp_path / "b", "--for", "teachers")
    students, teachers = (
        (tmp_path / folder / "10_simcse-slides.html").read_text(encoding="utf-8") for folder in "ab"
    )
    assert "<summary>Solution" not in students
    assert "For teachers" not in students
    # One folded part may be within another.
    assert students.count("<details") == students.count("</details>")
    assert "<summary>Solution" in teachers
    assert "data:image/png" in students
    assert not re.search(r'href="[^"]*\.ipynb', students)
    # A teacher's copy has open solutions.
    call("make", tmp_path / "c", "10_simcse", "--for", "teachers")
    call("make", tmp_path / "d", "10_simcse", "--for", "teachers", "--nbgrader")
    for folder in (tmp_path / "c", tmp_path / "d"):
        call("slides", folder / "10_simcse.ipynb", "--to", folder, "--handout")
        pages = [*folder.glob("*.html")]
        assert len(pages) == 2
        for page in pages:
            text = page.read_text(encoding="utf-8")
            assert "<summary>Solution" not in text, page
            assert "cross_entropy(scores" not in text.partition("1. Write the loss")[2], page
    (tmp_path / "wrong.ipynb").write_text('{"a": 1}')
    with pytest.raises(ValueError, match=r"wrong\.ipynb is no notebook"):
        call("slides", tmp_path / "wrong.ipynb")
    with pytest.raises(ValueError, match=r"no lesson 'nope'"):
        call("slides", "nope")


def test_a_link_is_no_page_to_share(tmp_path: Path):
    (tmp_path / "key.txt").write_text("secret")
    (tmp_path / "pages").mkdir()
    (tmp_path / "pages" / "result.html").symlink_to(tmp_path / "key.txt")
    with pytest.raises(SettingError, match="no page, or a link"):
        collect_pages([tmp_path / "pages"], tmp_path)


def test_an_unknown_lesson_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"no lesson '10_simce'.*did you mean '10_simcse'"):
        call("make", tmp_path, "00_tour", "10_simce")
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


@pytest.mark.slow
def test_a_notebook_that_fails_is_kept_where_the_error_says(tmp_path: Path):
    lesson = tmp_path / "mine.ipynb"
    cells = [new_code_cell(code) for code in ("print('so far')", "1 / 0")]
    nbformat.write(new_notebook(cells=cells), lesson)
    with pytest.raises(RunError, match="ZeroDivisionError") as failure:
        execute_lesson(lesson)
    kept = Path(str(failure.value).rpartition("the executed notebook: ")[2])
    assert "so far" in kept.read_text(encoding="utf-8")
    assert not (tmp_path / "mine.html").exists()


@pytest.fixture
def students(tmp_path: Path) -> Path:
    """Return the folder of a class."""
    lines = {
        "anna": "t,Anna,n,1. Write,0,f,\nt,Anna,n,1. Write,1,f,\nt,Anna,n,guess,,5.0,25.0\n",
        "ben": f"t,Ben,n,1. Write,0,f,\n{HEADER}t,Ben,n,2. Zero,0,4,\nt,Ben,n,2. Zero,0,5,\n",
        "cleo": "t,Anna,n,guess,,-2.5,25.0\n",
    }
    for seed, (folder, rows) in enumerate(lines.items()):
        sheet = tmp_path / folder / "my-notebooks" / "answers.csv"
        sheet.parent.mkdir(parents=True)
        sheet.write_text(HEADER + rows)
        if folder != "cleo":
            run = write_run(
                tmp_path / folder / "runs", SimCSEConfig.from_parameters("demo", seed, {}), 1.0
            )
            run.record(ended=f"2030-01-0{9 - seed}")
    (tmp_path / "dan").mkdir()
    if hasattr(os, "mkfifo"):  # it would be waited for
        os.mkfifo(tmp_path / "dan" / "answers2.csv")
    (tmp_path / "eva").mkdir()
    (tmp_path / "eva" / "answers.csv").write_text("foreign;table\n1;2\n")
    return tmp_path


def test_the_board_has_every_student_and_a_sentence_for_what_is_missing(students: Path):
    board = views.read_board(students, SUITE)
    rows = board.answers.to_dict("records")
    assert rows == [
        {
            "folder": "anna",
            "name": "Anna",
            "n 1. Write": "✓ try 2",
            "n 2. Zero": "open",
            "n guess": "5.0, off by 20.0",
        },
        {
            "folder": "ben",
            "name": "Ben",
            "n 1. Write": "✗ try 1",
            "n 2. Zero": "✗ try 2",
            "n guess": "open",
        },
        {
            "folder": "cleo",
            "name": "Anna",
            "n 1. Write": "open",
            "n 2. Zero": "open",
            "n guess": "-2.5, off by 27.5",
        },
    ]
    broken, *missing = board.notes
    assert broken.startswith(
        f"{students / 'eva' / 'answers.csv'} is no sheet of answers (CSV in UTF-8): "
    )
    assert missing == [
        "no answers: dan, eva",
        f"no finished run with scores on {SUITE}: cleo, dan, eva",
    ]


def test_the_interval_of_the_board_narrows_in_order_of_finishing(students: Path):
    copy = SimCSEConfig.from_parameters("demo", 1, {})
    write_run(students / "dan" / "runs", copy, 1.0).record(ended="2030-01-10")  # ben's seed
    other = SimCSEConfig.from_parameters("demo", 7, {"temperature": 0.1})
    write_run(students / "dan" / "runs", other, 1.0)
    board = views.read_board(students, SUITE)
    assert "left out, since another student has the same seed: dan" in board.notes
    runs: Any = board.runs
    assert runs["student"].tolist() == ["ben", "anna"], "a seed once, one setting"
    assert runs["mean"].tolist() == pytest.approx([runs["score"][0], runs["score"].mean()])
    assert runs["low"].isna().tolist() == [True, False]
    # Student's t with one degree of freedom.
    half = 12.706 * runs["score"].std() / 2**0.5
    assert runs["high"][1] - runs["mean"][1] == pytest.approx(half, rel=1e-4)


def test_a_folder_that_is_handed_in_twice_counts_once(students: Path):
    before = views.read_board(students, SUITE)
    again = Path(
        shutil.copytree(students / "anna" / "my-notebooks", students / "anna" / "copy (1)")
    )
    shutil.copytree(students / "anna" / "runs", again / "runs")
    sheet = again / "answers.csv"
    for name in ("n-Copy1", "n (2)"):
        sheet.write_text(f"{sheet.read_text()}u,Anna,{name},2. Zero,1,0,\n")
    board = views.read_board(students, SUITE)
    expected = before.answers.copy()
    expected.loc[expected["folder"] == "anna", "n 2. Zero"] = "✓ try 1"
    pd.testing.assert_frame_equal(board.answers, expected)
    pd.testing.assert_frame_equal(board.runs, before.runs)
    assert board.notes == before.notes


def test_the_folder_of_a_run_alone_takes_no_run_of_others(students: Path):
    (run,) = (students / "ben" / "runs" / "simcse").iterdir()
    shutil.copytree(run, students / "dan" / run.name)
    board = views.read_board(students, SUITE)
    assert board.runs["student"].tolist() == ["ben", "anna"]
    assert f"no finished run with scores on {SUITE}: cleo, dan, eva" in board.notes


def test_the_board_is_printed_and_written_as_a_page(students: Path):
    page = students / "board.html"
    output = call("board", students, "--suite", SUITE, "--html", page).output
    for text in ("✓ try 2", "✗ try 1", "no answers: dan, eva", f"page: {page}"):
        assert text in output
    html = page.read_text(encoding="utf-8")
    assert "the mean so far has its interval" in html
    assert "no answers: dan, eva" in html
    assert "https://" not in html.split("<script")[0]


def test_what_spreadsheets_and_browsers_do_to_a_sheet(students: Path):
    def sheet(name: str, text: str, encoding: str = "utf-8") -> None:
        path = students / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding=encoding)

    right = "t,S,n,1. Write,1,f,\n"
    sheet("a mark/answers.csv", HEADER + right, "utf-8-sig")
    sheet("b number/answers (1).csv", HEADER + right)
    sheet("c remark/answers.csv", HEADER + right.replace("\n", ",well done\n"))
    sheet("d cut/answers.csv", f"{HEADER}{right}t,S,n,2. Ze")
    sheet("e sorted/answers.csv", f"{HEADER}2030,S,n,1. Write,1,f,\n2029,S,n,1. Write,0,g,\n")
    sheet("f german/answers.csv", f'{HEADER}t,S,n,guess,,"2,5","1,0"\n')
    (students / "ben.zip").touch()
    board = views.read_board(students, SUITE)
    table = board.answers.set_index("folder")
    whole = table.loc[["a mark", "b number", "c remark", "d cut"]]
    assert whole["n 1. Write"].tolist() == ["✓ try 1"] * 4
    assert whole["name"].tolist() == ["S"] * 4
    assert table.loc["e sorted", "n 1. Write"] == "✓ try 2"
    assert table.loc["f german", "n guess"] == "2,5"
    assert not [name for name in table if "Ze" in name and "Zero" not in name]
    notes = "\n".join(board.notes)
    assert f"{students / 'd cut' / 'answers.csv'}: 1 lines are incomplete and left out" in notes
    assert f"{students / 'ben.zip'} is no folder: unpack it" in notes


def test_the_board_shows_the_runs_of_a_method(students: Path):
    for seed, folder in enumerate(("anna", "ben")):
        settings = CompCSEConfig.from_parameters("demo", seed, {})
        write_run(students / folder / "runs", settings, 1.0).record(ended="2031-01-01")
    board = views.read_board(students, SUITE)
    assert board.runs["settings"].unique().tolist() == ["compcse demo"], "those that ended last"
    output = call("board", students, "--suite", SUITE, "--method", "simcse").output
    assert "simcse demo" in output
    assert "compcse" not in output


def test_the_last_wrong_answers_and_sheets_that_a_spreadsheet_has_changed(students: Path):
    sheet = students / "dan" / "answers.csv"
    line = 't;Dan;n;2. Zero;0;"def f(x):\n    return x";\n'
    sheet.write_text(HEADER.replace(",", ";") + line)
    board = views.read_board(students, SUITE)
    assert board.wrong.to_dict("records") == [
        {"exercise": "n 1. Write", "name": "Ben", "answer": "f"},
        {"exercise": "n 2. Zero", "name": "Ben", "answer": "5"},
        {"exercise": "n 2. Zero", "name": "Dan", "answer": "def f(x):\n    return x"},
    ]
    printed = call("board", students, "--suite", SUITE).output
    assert "n 2. Zero, Dan:\ndef f(x):\n    return x\n" in printed, "code keeps its lines"
    (students / ".ipynb_checkpoints").mkdir()
    assert ".ipynb_checkpoints" not in call("board", students, "--suite", SUITE).output
    printed = call("board", students / "none").output
    assert f"{students / 'none'} is no folder of a class" in " ".join(printed.split())


def test_runs_without_the_suite_of_the_board_are_missing_and_hide_no_others(students: Path):
    config = SimCSEConfig.from_parameters("demo", 4, {})
    run = Run.open(config, students / "dan" / "runs")
    run.release()
    for folder in ("anna", "ben"):
        shutil.rmtree(students / folder / "runs")
    board = views.read_board(students, "a-suite-of-one-student")
    name = "a-suite-of-one-student"
    assert f"no finished run with scores on {name}: anna, ben, cleo, dan, eva" in board.notes
    assert list(board.answers["folder"]) == ["anna", "ben", "cleo"]


def test_a_board_of_nobody_is_empty(tmp_path: Path):
    board = views.read_board(tmp_path)
    assert board.answers.empty
    assert board.runs.empty
    assert board.notes == [
        f"{tmp_path} is no folder of a class: give one with a folder for each student"
    ]
    assert views.board_page(tmp_path / "board.html", board).is_file()
