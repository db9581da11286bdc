"""Exercises are judged by what they compute; the numbers of a lesson are those of its run."""

import ast
import csv
import inspect
import itertools
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
import torch
from forking import python
from written_runs import SUITE, write_run

from workbench import teaching
from workbench.config import SimCSEConfig
from workbench.losses import info_nce, listnet

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
CHECK = "teaching.check_answer("


def exercises(path: Path) -> list[tuple[str, str]]:
    """Return the code of each exercise of a notebook and that of its solution, folded in the cell
    after it."""
    cells = nbformat.read(path, as_version=4).cells
    found = []
    for cell, after in itertools.pairwise(cells):
        if cell.cell_type == "code" and CHECK in cell.source:
            folded = re.match(
                r"<details><summary>Solution</summary>\n(.+?)\n</details>", after.source, re.DOTALL
            )
            assert folded, f"no solution after {cell.source!r}"
            solution = re.search(r"```python\n(.+?)\n```|`(answer = .+?)`", folded[1], re.DOTALL)
            assert solution, folded[1]
            found.append((cell.source, solution[1] or solution[2]))
    return found


# Three wrong answers for each exercise, in the order of its notebook, and the words with which the
# verdict names the mistake.
WRONG: dict[str, list[dict[str, str]]] = {
    "10_simcse": [
        {
            "def my_info_nce(cosines, temperature): "
            "return -torch.log_softmax(cosines, dim=1).diagonal().mean()": "Not used: temperature",
            "def my_info_nce(cosines, temperature): "
            "return -torch.log_softmax(cosines / temperature, dim=0).diagonal().mean()": "dim",
            "def my_info_nce(cosines, temperature): "
            "return -torch.log_softmax(cosines / temperature, dim=1).diagonal().sum()": "5 times",
        },
        {
            "answer = 4.16": "equal cosines",
            "answer = 3.19": "temperature is missing",
            "answer = 1": "cosine of the twins",
        },
        {
            'answer = ["a", "b", "c", "d"]': "All four texts differ",
            'answer = ["rain falls", "rain falls", "bread"]': "four sentences",
            'answer = "papa"': "a list",
        },
    ],
    "11_rankcse": [
        {
            "def my_listnet(student, teacher, **settings): "
            "return listnet(teacher, student, **settings)": "exchanged",
            "def my_listnet(student, teacher, student_temperature, teacher_temperature, **_): "
            "return -(torch.softmax(teacher / teacher_temperature, dim=1) "
            "* torch.log_softmax(student / student_temperature, dim=1)).mean()": "0.25 times",
            "def my_listnet(student, teacher, teacher_temperature, **_): "
            "return -(torch.softmax(teacher / teacher_temperature, dim=1) "
            "* torch.log_softmax(student, dim=1)).sum(dim=1).mean()": "student_temperature",
        },
        {
            "answer = 0.357": "student ranks first",
            "answer = math.log(0.2)": "sign",
            "answer = -math.log2(0.2)": "base 2",
        },
        {
            "answer = losses.js_consistency": "two lists",
            "answer = losses.listmle": "whole list",
            "answer = losses.listnet": "whole list",
        },
        {
            "answer = [0.9, 0.8, 0.5]": "gaps large",
            "answer = [1.0, 0.7, -0.5]": "correlation is too high",
            "answer = [3, 2, 0]": "from -1 to 1",
        },
    ],
    "12_compcse": [
        {
            "def my_loss(h, h_left, h_right, temperature): "
            "return -torch.log_softmax(cosine_matrix(h, h_left + h_right), dim=1)"
            ".diagonal().mean()": "Not used: temperature",
            "def my_loss(h, h_left, h_right, temperature): "
            "return -torch.log_softmax(cosine_matrix(h, h_left + h_right) / temperature, dim=1)"
            ".diagonal().sum()": "5 times",
            "def my_loss(h, h_left, h_right, temperature): "
            "return -torch.log_softmax(cosine_matrix(h, h_left + h_right) / temperature, dim=1)"
            ".diagonal()": "mean is missing",
        },
        {
            "answer = 0.5": "in the average already",
            "answer = 0": "distance",
            "answer = 2": "at most 1",
        },
        {
            'answer = "the captain repairs the old boat"': "itself",
            'answer = "the old boat repairs the captain"': "halves differ",
            'answer = "the boat is repaired"': "Other words",
        },
    ],
    "13_cosent": [
        {
            "def my_cosent(cosines, labels, scale): "
            "return cosent(labels, cosines, scale=scale)": "exchanged",
            "def my_cosent(cosines, labels, scale): "
            "return torch.log(1 + torch.exp((cosines - cosines[:, None])"
            "[labels[:, None] > labels]).sum())": "Not used: scale",
            "def my_cosent(cosines, labels, scale): "
            "return -torch.log(1 + torch.exp(scale * (cosines - cosines[:, None])"
            "[labels[:, None] > labels]).sum())": "-1 times the right",
        },
        {
            "answer = 25": "factor of the largest label",
            "answer = 3": "exponent",
            "answer = 0": "same comparisons",
        },
        {
            "answer = [0.0, 0.5, 1.0]": "squared error is only",
            "answer = [1.0, 0.5, 0.0]": "order is wrong",
            "answer = [0.0, 0.5]": "three cosines",
        },
        {
            "def my_pearson(cosines, labels): "
            "return torch.corrcoef(torch.stack([cosines, labels]))[0, 1] - 1": "-1 times the right",
            "def my_pearson(cosines, labels): "
            "return -torch.corrcoef(torch.stack([cosines, labels]))[0, 1]": "-1",
            "def my_pearson(cosines, labels): "
            "return torch.corrcoef(torch.stack([cosines, labels]))[0, 1]": "-1 times the right",
        },
    ],
    "14_rankencoder": [
        {
            "def my_rank_vectors(similarities): return rank_vectors(similarities.T).T": "dim",
            "def my_rank_vectors(similarities): return rank_vectors(-similarities)": "-1 times",
            "def my_rank_vectors(similarities): return "
            "similarities.argsort(dim=1).argsort(dim=1).double() - 3.5": "6.48",
        },
        {
            'answer = ["a", "b", "b"]': "2 of its texts differ",
            'answer = ["a", "a"]': "three sentences",
            'answer = "aaa"': "a list",
        },
        {
            "answer = 0.05": "weight alone",
            "answer = 0.02": "l_r alone",
            "answer = 0.02 / 0.05": "divided by its weight",
        },
    ],
    "15_rank_closed_form": [
        {
            "def my_closed_form(a, corpus): "
            "return torch.asin(torch.corrcoef(a @ corpus.T) / 2)": "0.523",
            "def my_closed_form(a, corpus): "
            "return 2 / torch.pi * torch.asin(torch.corrcoef(a @ corpus.T) / 2)": "0.333",
            "def my_closed_form(a, corpus): return "
            "6 / torch.pi * torch.asin(torch.corrcoef(corpus @ a.T) / 2)": "exchanged",
        },
        {
            "answer = 0.5": "r itself",
            "answer = 1 / 3": "Kendall",
            "answer = 6 / math.pi * math.asin(0.5)": "half of r",
        },
    ],
    "16_mixed": [
        {
            "def my_loss(student, teacher): "
            "return composed_and_distilled(teacher, student)": "exchanged",
            "def my_loss(student, teacher): "
            "return composed_and_distilled(student, teacher) / 2": "0.5 times",
            "def my_loss(student, teacher): "
            "return len(student) * composed_and_distilled(student, teacher)": "5 times",
        },
        {
            'answer = {"gamma": 0.0}': "Not yet SimCSE's: compose.",
            'answer = {"compose": "none", "temperature": 5.0}': "SimCSE's: gamma, temperature.",
            'answer = {"gama": 0.0}': "gamma",
        },
    ],
    "17_lists": [
        {
            "def my_listmle(student, gold, temperature): "
            "return graded_listmle(gold, student, temperature=temperature)": "exchanged",
            "def my_listmle(student, gold, temperature): "
            "return graded_listmle(student, gold, temperature=1.0)": "Not used: temperature",
            "def my_listmle(student, gold, temperature): return "
            "3 * graded_listmle(student, gold, temperature=temperature)": "3 times",
        },
        {
            "answer = 24": "a count",
            "answer = math.log(4)": "first place alone",
            "answer = 6 * math.log(2)": "each pair by itself",
        },
        {
            "answer = [0.9, 0.85, 0.1, 0.0]": "or a gap small",
            "answer = [-0.4, 0.0, 0.4, 0.9]": "Is the order wrong",
            "answer = [0.9, 0.7, 0.1, -0.1]": "Which gap",
        },
    ],
}


def verdict(source: str) -> str:
    """Execute the code of a cell and return the text of its last expression, as a notebook shows
    it."""
    *lines, last = ast.parse(source).body
    names: dict[str, Any] = {}
    exec(compile(ast.Module(lines, []), "cell", "exec"), names)
    return repr(eval(compile(ast.Expression(last.value), "cell", "eval"), names))  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", WRONG)
def test_the_solution_of_each_exercise_is_right_and_the_verdict_names_a_mistake(name: str):
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    imports = [
        ast.unparse(statement)
        for source in code
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    for (cell, solution), mistakes in zip(
        exercises(FOLDER / f"{name}.ipynb"), WRONG[name], strict=True
    ):
        blank, rest = re.fullmatch(
            r"(def .+?return \.\.\.  # your code|answer = None.*?)\n(.+)", cell, re.DOTALL
        ).groups()

        def judged(answer: str, rest: str = rest) -> str:
            return verdict("\n".join(["import math", *imports, answer, rest]))

        assert judged(blank) == "Not answered yet."
        assert judged(solution).startswith("Right"), solution
        assert len(mistakes) == 3
        for wrong, words in mistakes.items():
            text = judged(wrong)
            assert text.startswith("Not yet."), wrong
            assert words in text, wrong
        parts = solution.rpartition("return ")
        if blank.startswith("def") and parts[0]:
            forgotten = f"{parts[0]}result = {parts[2]}"
            assert judged(forgotten) == "Not yet. It returns nothing: is `return` missing?"
        if blank.startswith("answer"):  # a value of another kind is no traceback
            assert judged("answer = object()").startswith("Not yet.")


TEACHERS = re.compile(
    r"<details><summary>For teachers: 45 and 90 minutes</summary>\n(.+?)\n</details>", re.DOTALL
)


@pytest.mark.parametrize("name", ["00_tour", *WRONG])
def test_teachers_have_a_plan_of_45_and_of_90_minutes_and_three_misunderstandings(name: str):
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    (plan,) = TEACHERS.findall(text)
    rows = re.findall(r"^\| (\d+|-) \| (\d+) \| .+? \| (.+?) \|$", plan, re.MULTILINE)
    assert sum(int(short) for short, _, _ in rows if short != "-") == 45
    assert sum(int(long) for _, long, _ in rows) == 90
    named = [heading for _, _, places in rows for heading in places.split("; ")]
    assert [heading for heading in named if heading not in headings] == []
    assert len(re.findall(r'^\d\. \*"', plan.partition("What students get wrong")[2], re.M)) == 3


@pytest.mark.parametrize("name", WRONG)
def test_each_check_has_the_number_and_title_of_its_exercise(name: str):
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    titles = re.findall(r"^\*\*(\d\. .+?)\.?\*\*", text, re.MULTILINE)
    checked = []
    for source, _ in exercises(FOLDER / f"{name}.ipynb"):
        checked += re.findall(r'(?:exercise=|exercise": |title = |, )"(\d\. .+?)"', source)
    assert checked == [title.replace("$", "") for title in titles]


def test_a_wrong_function_is_told_where_it_differs_and_an_error_is_a_sentence():
    def shifted(scores: torch.Tensor) -> torch.Tensor:
        return scores + torch.tensor([0.0, 0.0, 1.0])

    text = teaching.check_answer(shifted, torch.clone, (2, 3))
    assert re.search(r"random input 1.*difference: 1.0 at index \([01], 2\)", text, re.DOTALL)
    assert "AttributeError" in teaching.check_answer(
        lambda scores: scores.missing, torch.clone, (2, 3)
    )
    text = teaching.check_answer(lambda scores, temperature: 0, info_nce, (4, 4), temperature=0.1)
    assert "random input 1: AssertionError" in text


def test_the_right_answer_may_be_a_module_of_torch():
    verdict = teaching.check_answer(
        lambda one, two: ((one - two) ** 2).mean(), torch.nn.MSELoss(), (5,), (5,)
    )
    assert verdict.startswith("Right: equal to the solution on")


def test_a_guard_against_a_division_by_zero_is_no_mistake():
    def guarded(scores: torch.Tensor) -> torch.Tensor:
        return scores / (scores.norm() + 1e-6)

    def right(scores: torch.Tensor) -> torch.Tensor:
        return scores / scores.norm()

    assert teaching.check_answer(guarded, right, (4, 4)).startswith("Right")


def test_an_answer_that_changes_its_input_is_judged_by_its_result():
    def scaled(cosines: torch.Tensor, temperature: float) -> torch.Tensor:
        cosines /= temperature
        return -torch.log_softmax(cosines, dim=1).diagonal().mean()

    assert teaching.check_answer(scaled, info_nce, (4, 4), temperature=0.1).startswith("Right")
    assert teaching.check_answer(lambda scores: scores.zero_(), torch.clone, (2, 3)).startswith(
        "Not yet"
    )


def log_softmax_loss(
    cosines: torch.Tensor, temperature: float, dim: int = 1, factor: float = 1
) -> torch.Tensor:
    return -factor * torch.log_softmax(cosines / temperature, dim=dim).diagonal()


def ranks_of(scores: torch.Tensor, dim: int = 1, first: int = 1) -> torch.Tensor:
    return scores.argsort(dim=dim).argsort(dim=dim) + first


def forget(*names: str) -> Any:
    """Return ListNet with 1 in place of the settings of these names."""

    def without(ours: torch.Tensor, theirs: torch.Tensor, **taus: Any) -> torch.Tensor:
        changed: dict[str, Any] = dict.fromkeys(names, 1.0)
        return listnet(ours, theirs, **{**taus, **changed})

    return without


TAUS = {"student_temperature": 0.05, "teacher_temperature": 0.1, "exclude_positive": False}
# A function, the right one, the shapes of its inputs, its settings, and the mistake.
MISTAKES = [
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature, dim=0).mean(),
        "Rows and columns are exchanged (dim).",
    ),
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature).sum(),
        "It is 5 times the right result: a sum in place of a mean, or the reverse?",
    ),
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature).mean() / 5,
        "It is 0.2 times the right result: a sum in place of a mean, or the reverse?",
    ),
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature, factor=-1).mean(),
        "It is -1 times the right result: look at the sign.",
    ),
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature, factor=0.3).mean(),
        "It is 0.3 times the right result.",
    ),
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature=1).mean(),
        "Not used: temperature.",
    ),
    (log_softmax_loss, "A mean is missing at the end."),
    (
        lambda cosines, temperature: log_softmax_loss(cosines, temperature, dim=0).mean(),
        "Rows and columns are exchanged (dim).",
    ),
]


@pytest.mark.parametrize(("answer", "mistake"), MISTAKES)
def test_a_common_mistake_of_a_loss_is_named(answer: Any, mistake: str):
    text = teaching.check_answer(answer, info_nce, (5, 5), temperature=0.07)
    assert text == f"Not yet. {mistake}"


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (lambda scores: ranks_of(scores, first=0), "It is off by -1."),
        (lambda scores: ranks_of(scores, dim=0), "It is along the other axis (dim)."),
    ],
)
def test_a_common_mistake_of_ranks_is_named(answer: Any, mistake: str):
    assert teaching.check_answer(answer, ranks_of, (3, 8)) == f"Not yet. {mistake}"


@pytest.mark.parametrize(
    ("answer", "mistake"),
    [
        (
            lambda ours, theirs, **taus: listnet(theirs, ours, **taus),
            "The arguments are exchanged.",
        ),
        (forget("teacher_temperature"), "Not used: teacher_temperature."),
        (forget("student_temperature", "teacher_temperature"), "The settings are not used."),
    ],
)
def test_a_common_mistake_with_two_arguments_is_named(answer: Any, mistake: str):
    text = teaching.check_answer(answer, listnet, (5, 4), (5, 4), **TAUS)
    assert text == f"Not yet. {mistake}"


def test_a_mistake_must_explain_every_trial():
    """Give the first trial of five a wrong axis, and the others another mistake."""
    calls = itertools.count()

    def wavering(cosines: torch.Tensor, temperature: float) -> torch.Tensor:
        dim = 0 if next(calls) % 5 == 0 else 1
        factor = 1 if dim == 0 else 2
        return log_softmax_loss(cosines, temperature, dim, factor).mean()

    text = teaching.check_answer(wavering, info_nce, (5, 5), temperature=0.07)
    assert text.startswith("Not yet. On random input 1: AssertionError")
    # A constant answer is 0 times the right one, which would explain nothing.
    text = teaching.check_answer(lambda cosines, temperature: 3, info_nce, (5, 5), temperature=0.07)
    assert text.startswith("Not yet. On random input 1: AssertionError")


def test_a_wrong_value_has_a_hint_of_its_own():
    mistakes = {4.158: "That is log 64.", (1, 2): "The other way round.", "b": "The second."}

    def told(answer: Any) -> str:
        return teaching.check_answer(answer, lambda value: value == 1, mistakes=mistakes)

    assert told(4.16) == "Not yet. That is log 64."
    assert told(torch.tensor(4.16)) == "Not yet. That is log 64."
    assert told(4.3) == "Not yet."
    assert told([1, 2]) == "Not yet. The other way round."
    assert told("b") == "Not yet. The second."
    assert told({"b": 1}) == "Not yet."
    # A right answer is right, even if a wrong one is near.
    near = teaching.check_answer(1.0, lambda value: value == 1, mistakes={1.005: "Too large."})
    assert near == "Right."


@pytest.fixture
def sheet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the sheet, in a current folder called "anna", before a signature."""
    (tmp_path / "anna").mkdir()
    monkeypatch.chdir(tmp_path / "anna")
    monkeypatch.setattr(teaching, "_signature", [])
    monkeypatch.setenv("JPY_SESSION_NAME", "/somewhere/10_simcse.ipynb")
    return tmp_path / "anna" / "answers.csv"


def rows_of(sheet: Path) -> list[dict[str, str]]:
    with sheet.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_answers_and_guesses_are_noted_once_a_student_has_signed(sheet: Path):
    history = pd.DataFrame({"step": [0, 5], "dev_spearman": [0.2, 0.1]})

    def is_four(value: Any) -> bool:
        return value == 4

    teaching.check_answer(5, is_four, exercise="2. Count")
    assert not sheet.exists()
    assert str(sheet) in teaching.sign("Zoë")
    teaching.check_answer(None, is_four, exercise="2. Count")
    teaching.compare_guess(None, history)
    assert not sheet.exists(), "no answer, no line"
    teaching.check_answer(5, is_four, exercise="2. Count")
    teaching.check_answer(4, is_four, exercise="2. Count")
    teaching.check_answer(log_softmax_loss, log_softmax_loss, (3, 3), temperature=1.0, exercise="1")
    teaching.compare_guess(-2.5, history)
    rows = rows_of(sheet)
    assert {row["name"] for row in rows} == {"Zoë"}
    assert {row["notebook"] for row in rows} == {"10_simcse"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00", row["time"]) for row in rows)
    values = [(row["exercise"], row["right"], row["answer"], row["gain"]) for row in rows]
    assert values == [
        ("2. Count", "0", "5", ""),
        ("2. Count", "1", "4", ""),
        ("1", "1", inspect.getsource(log_softmax_loss)[:1500], ""),
        ("guess", "", "-2.5", "-10.0"),
    ]


def test_a_sheet_that_a_spreadsheet_saved_with_semicolons_goes_on_with_them(sheet: Path):
    teaching.sign("Anna")
    teaching.check_answer(5, lambda value: value == 4, exercise="1")
    sheet.write_text(sheet.read_text().replace(",", ";"))
    teaching.check_answer(4, lambda value: value == 4, exercise="1")
    rows = pd.read_csv(sheet, sep=";")
    assert rows["name"].tolist() == ["Anna", "Anna"]
    assert rows["right"].tolist() == [0, 1]


def test_a_sheet_that_lost_its_last_line_end_goes_on_in_a_new_line(sheet: Path):
    teaching.sign("Anna")
    for answer in (5, 4):
        teaching.check_answer(answer, lambda value: value == 4, exercise="1")
        sheet.write_text(sheet.read_text().removesuffix("\n"))
    assert [row["right"] for row in rows_of(sheet)] == ["0", "1"]


def test_an_answer_is_judged_where_the_sheet_cannot_be_written(
    sheet: Path, caplog: pytest.LogCaptureFixture
):
    teaching.sign("Anna")
    sheet.mkdir()  # whatever keeps it from being written
    assert teaching.check_answer(4, lambda value: value == 4) == "Right."
    assert "not noted: " in caplog.text


def test_a_line_for_which_there_is_no_room_leaves_the_sheet_whole(
    sheet: Path, caplog: pytest.LogCaptureFixture
):
    resource = pytest.importorskip("resource")
    teaching.sign("Anna")
    teaching.check_answer(5, lambda value: value == 4, exercise="1")
    before = sheet.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))  # as a full disk
    try:
        assert teaching.check_answer(4, lambda value: value == 4, exercise="1") == "Right."
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "not noted: there was room for a part of it" in caplog.text
    assert sheet.read_bytes() == before
    teaching.check_answer(4, lambda value: value == 4, exercise="1")
    assert [row["right"] for row in rows_of(sheet)] == ["0", "1"]


def test_an_answer_that_has_no_text_is_judged_and_noted(sheet: Path):
    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no")

    teaching.sign("Anna")
    for answer in (10**5000, Mute(), "\ud83d"):
        assert teaching.check_answer(answer, lambda _: False, exercise="1").startswith("Not yet.")
    assert [row["answer"] for row in rows_of(sheet)] == ["int", "Mute", r"\ud83d"]


def test_the_notebook_of_vs_code_is_noted(sheet: Path, monkeypatch: pytest.MonkeyPatch):
    # Of a notebook on a server VS Code makes a session of another name each time.
    monkeypatch.setenv("JPY_SESSION_NAME", "13_cosent-jvsc-5f3c.ipynb")
    path = "/somewhere/13_cosent.ipynb"
    monkeypatch.setattr(sys.modules["__main__"], "__vsc_ipynb_file__", path, raising=False)
    teaching.sign("Anna")
    teaching.check_answer(5, lambda value: value == 4)
    assert rows_of(sheet)[0]["notebook"] == "13_cosent"


def test_without_a_name_the_folder_signs(sheet: Path):
    teaching.sign("  ")
    teaching.check_answer(5, lambda value: value == 4)
    assert rows_of(sheet)[0]["name"] == "anna"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1+2", "@SUM(A1)", 'x",=1', "a\nb", "long" * 99])
def test_no_cell_becomes_a_formula_and_each_stays_one_cell(sheet: Path, text: str):
    teaching.sign(text)
    teaching.check_answer(text, lambda value: value == 4, exercise=text)
    (row,) = rows_of(sheet)
    for name in ("name", "exercise", "answer"):
        assert row[name].removeprefix("'") == text[:1500]
        assert row[name][0] not in "=+-@"
    assert len(row) == 7


NOTE_MANY = """
from workbench import teaching
teaching.sign("Anna")
for number in range(40):
    teaching.check_answer("x" * 70, lambda value: False, exercise=str(number))
"""


@pytest.mark.slow
def test_several_notebooks_write_to_one_sheet(tmp_path: Path):
    notebooks = [
        subprocess.Popen([python("looks"), "-c", NOTE_MANY], cwd=tmp_path) for _ in range(3)
    ]
    assert [notebook.wait() for notebook in notebooks] == [0, 0, 0]
    rows = [row for row in rows_of(tmp_path / "answers.csv") if row["time"] != "time"]
    counts = Counter(row["exercise"] for row in rows)
    assert counts == dict.fromkeys(map(str, range(40)), 3)
    assert {row["answer"] for row in rows} == {"x" * 70}


def test_a_guess_is_compared_with_the_kept_checkpoint():
    history = pd.DataFrame({"step": [0, 5, 10, 20], "dev_spearman": [0.2, None, 0.5, 0.4]})
    assert (
        teaching.compare_guess(None, history)
        == "You made no guess; it is +30.0 points on dev, from 20.0 to 50.0."
    )
    assert "You guessed +25.0; it is +30.0 points" in teaching.compare_guess(25, history)
    assert teaching.compare_guess(25, history).endswith("5.0 points off.")
    assert teaching.compare_guess("a lot", history).startswith(
        "Your guess is 'a lot', not a number such as 2.5; it is +30.0 points"
    )


def test_the_recap_has_the_metrics_of_the_run_before_and_after(tmp_path: Path):
    run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    table = {
        "step": [0, 5, 10],
        "dev_spearman": [0.2, 0.5, 0.4],
        "dev_uniformity": [-1.0, -2.0, -3.0],
    }
    pd.DataFrame(table).to_csv(run.path / "history.csv", index=False)
    told = teaching.recap(run)
    assert told.loc["dev: Spearman"].tolist() == [20, 50, 30]
    assert told.loc["dev: uniformity"].tolist() == [-1, -2, -1]
    for measure, name in (("spearman", "Spearman"), ("kcc", "KCC"), ("ndcg", "NDCG")):
        ends = [100 * run.metrics(stage)[SUITE][measure] for stage in ("before", "")]
        assert told.loc[f"{SUITE}: {name}", ["before", "after"]].tolist() == pytest.approx(
            ends, abs=0.006
        )


@pytest.mark.parametrize(
    "answer", [torch.zeros(3, 4), np.zeros(3), pd.Series([1, 2]), "zero", [0], {}, float("nan")]
)
def test_any_value_gets_one_sentence(answer: Any):
    verdict = teaching.check_answer(
        answer,
        lambda loss: abs(loss - 1.5) < 0.1 or "Which weight?",
        mistakes={2: "Twice.", (1,): "x"},
    )
    assert verdict.startswith("Not yet. ")
    assert "\n" not in verdict
    assert teaching.check_answer(answer, info_nce, (3, 3), temperature=1.0) == (
        "Not yet. It takes a function."
    )


@pytest.mark.parametrize("guess", ["five", [5], float("nan")])
def test_a_guess_that_is_no_number_is_said_and_not_noted(guess: Any, sheet: Path):
    teaching.sign("Anna")
    history = pd.DataFrame({"step": [0, 5], "dev_spearman": [0.2, 0.1]})
    assert "not a number such as 2.5" in teaching.compare_guess(guess, history)
    assert not sheet.exists()
