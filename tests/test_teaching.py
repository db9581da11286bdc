"""Exercises are judged by what they compute; the numbers of a lesson are those of its run."""

import ast
import itertools
import re
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
import torch
from written_runs import SUITE, write_run

from workbench import teaching
from workbench.config import SimCSEConfig
from workbench.losses import info_nce

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


# A wrong answer for each exercise, in the order of its notebook.
WRONG = {
    "10_simcse": [
        "def my_info_nce(cosines, temperature): return -torch.log_softmax(cosines, "
        "dim=1).diagonal().mean()",
        "answer = 4.16",
        'answer = ["a", "b", "c", "d"]',
    ],
    "11_rankcse": [
        "def my_listnet(student, teacher, **settings): return listnet(teacher, student, "
        "**settings)",
        "answer = 0.357",
        "answer = losses.js_consistency",
        "answer = [0.9, 0.8, 0.5]",
    ],
    "12_compcse": [
        "def my_loss(h, h_left, h_right): return info_nce(cosine_matrix(h, h_left), "
        "temperature=0.05)",
        "answer = 0.5",
        'answer = "the old boat repairs the captain"',
    ],
    "13_cosent": [
        "def my_cosent(cosines, labels, scale): return (labels - cosines).square().mean()",
        "answer = 25",
        "answer = [0.0, 0.5, 1.0]",
        "def my_pearson(cosines, labels): return (labels - cosines).square().mean()",
    ],
    "14_rankencoder": [
        "def my_rank_vectors(similarities): return "
        "similarities.argsort(dim=1).argsort(dim=1).double() - 3.5",
        'answer = ["a", "b", "b"]',
        "answer = 0.05",
    ],
    "15_rank_closed_form": [
        "def my_closed_form(a, corpus): return torch.corrcoef(a @ corpus.T)",
        "answer = 0.5",
    ],
    "17_lists": [
        "def my_listmle(student, gold, temperature): return graded_listmle(gold, "
        "student, temperature=temperature)",
        "answer = 24",
        "answer = [0.9, 0.85, 0.1, 0.0]",
    ],
    "16_mixed": [
        "def my_loss(student, teacher): return info_nce(student, temperature=0.05)",
        'answer = {"gamma": 0.0}',
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
def test_the_solution_of_each_exercise_is_right_and_a_wrong_answer_is_not(name: str):
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    imports = [
        ast.unparse(statement)
        for source in code
        for statement in ast.parse(source).body
        if isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    for (cell, solution), wrong in zip(
        exercises(FOLDER / f"{name}.ipynb"), WRONG[name], strict=True
    ):
        blank, rest = re.fullmatch(
            r"(def .+?return \.\.\.  # your code|answer = None.*?)\n(.+)", cell, re.DOTALL
        ).groups()
        texts = [
            verdict("\n".join([*imports, answer, rest])) for answer in (blank, wrong, solution)
        ]
        assert [re.split(r"[.:]", text)[0] for text in texts] == [
            "Not answered yet",
            "Not yet",
            "Right",
        ], solution
        if blank.startswith("answer"):  # a value of another kind is no traceback
            assert verdict("\n".join([*imports, "answer = object()", rest])).startswith("Not yet.")


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


def test_an_answer_that_changes_its_input_is_judged_by_its_result():
    def scaled(cosines: torch.Tensor, temperature: float) -> torch.Tensor:
        cosines /= temperature
        return -torch.log_softmax(cosines, dim=1).diagonal().mean()

    assert teaching.check_answer(scaled, info_nce, (4, 4), temperature=0.1).startswith("Right")
    assert teaching.check_answer(lambda scores: scores.zero_(), torch.clone, (2, 3)).startswith(
        "Not yet"
    )


def test_a_guess_is_compared_with_the_kept_checkpoint():
    history = pd.DataFrame({"step": [0, 5, 10, 20], "dev_spearman": [0.2, None, 0.5, 0.4]})
    assert (
        teaching.compare_guess(None, history)
        == "You made no guess; it is +30.0 points on dev, from 20.0 to 50.0."
    )
    assert "You guessed +25.0; it is +30.0 points" in teaching.compare_guess(25, history)
    assert teaching.compare_guess(25, history).endswith("5.0 points off.")
    assert teaching.compare_guess("a lot", history).startswith(
        "Your guess is the text 'a lot', not a number such as 2.5; it is +30.0 points"
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
