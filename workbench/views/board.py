"""The board of a class: who has answered which exercise, and their runs of one setting."""

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from pandas import DataFrame

from workbench.errors import DataError, first_problem
from workbench.files import AnyPath, user_path
from workbench.metrics import seed_interval
from workbench.views._style import render
from workbench.views.export import FigureRenderer, script_html, write_page
from workbench.views.figures import narrowing_interval
from workbench.views.notebooks import table_html
from workbench.views.run_tables import finished_runs

# The file of answers that `teaching.sign` starts, and its columns.
SHEET = "answers.csv"
SHEET_COLUMNS = ["time", "name", "notebook", "exercise", "right", "answer", "gain"]
_ONE_EXERCISE = ["folder", "name", "exercise"]  # of a student


class Board(NamedTuple):
    """Answers by student and exercise, the last wrong ones, runs as they ended, what is missing."""

    answers: DataFrame
    wrong: DataFrame
    runs: DataFrame
    notes: list[str]


def read_board(folder: AnyPath, suite: str = "world-test", method: str = "") -> Board:
    """Return the answers and the scores of a class, in which each student has a folder.

    Each contains, at any depth, sheets of `teaching.sign` and runs. Whatever cannot be read or is
    missing is a note, and hides nothing else.

    Args:
        folder: That of the class.
        suite: The set or average on which the runs are scored.
        method: That of the runs; "": those of the most frequent settings, whatever their method.

    Returns:
        answers: folder, name and a column for each exercise: "✓ try 2", "✗ try 3", a guess and its
            distance from the gain, or "open". Tries are counted in the order of their time.
        wrong: exercise, name and answer: each student's last try of what was never right.
        runs: Of the most frequent settings (of several those that ended last), each seed once:
            student, settings, seed, score (x 100); mean, low and high: the 95% interval of the mean
            of the scores so far.

    Example:
        read_board("class").answers
    """
    sheets = [DataFrame(columns=["folder", *SHEET_COLUMNS])]
    runs = [DataFrame(columns=["student", "method", "settings", "seed", "ended", "spearman"])]
    notes = []
    folder = user_path(folder)
    places = sorted(folder.glob("[!.]*/"))
    if (folder / SHEET).is_file() or not places:
        notes.append(f"{folder} is no folder of a class: give one with a folder for each student")
    for place in places:
        # Browsers number what they save again.
        for sheet in sorted(filter(Path.is_file, place.rglob("answers*.csv"))):
            try:
                # A spreadsheet may have changed the commas into semicolons, and written a mark of
                # its encoding, or a remark beside the table.
                rows: Any = pd.read_csv(
                    sheet,
                    sep=None,
                    engine="python",
                    dtype=str,
                    na_filter=False,
                    encoding="utf-8-sig",
                    index_col=False,
                    usecols=SHEET_COLUMNS,
                )
                whole = rows.dropna()
                if cut := len(rows) - len(whole):
                    notes.append(f"{sheet}: {cut} lines are incomplete and left out")
                # Two notebooks that begin a sheet at once may both write its header.
                whole = whole[whole["name"] != "name"]
                sheets.append(whole.assign(folder=place.name))
            except Exception as problem:  # whatever a file of this name contains
                notes.append(
                    f"{sheet} is no sheet of answers (CSV in UTF-8): {first_problem(problem)}"
                )
        # A run's folder alone has the class as its root, whose runs are everybody's.
        roots = {config.parents[2] for config in place.rglob("*-s*/config.json")}
        for root in roots - {folder}:
            with suppress(DataError):  # it has no scores of this suite
                runs.append(finished_runs(root, suite).assign(student=place.name))
    notes += [f"{packed} is no folder: unpack it" for packed in folder.glob("*.zip")]
    # One student may hand in a folder twice, and sort it.
    answers: Any = pd.concat(sheets).drop_duplicates()
    answers = answers.sort_values(["folder", "time"], kind="stable")
    scored: Any = pd.concat(runs).sort_values("ended")
    if method:
        scored = scored[scored["method"] == method]
    for missing, names in (
        ("answers", answers["folder"]),
        (f"finished {method or 'run'} with scores on {suite}", scored["student"]),
    ):
        if without := [place.name for place in places if place.name not in {*names}]:
            notes.append(f"no {missing}: {', '.join(without)}")
    scored = scored.drop_duplicates(["student", "method", "settings", "seed"])
    again = scored[scored.duplicated(["method", "settings", "seed"])]["student"].unique()
    if len(again):
        notes.append(f"left out, since another student has the same seed: {', '.join(again)}")
    # JupyterLab and browsers add a number to the name of a copy.
    notebooks = answers["notebook"].str.replace(r"(-Copy\d+| ?\(\d+\))$", "", regex=True)
    answers["exercise"] = (notebooks + " " + answers["exercise"]).str.strip()
    return Board(_states(answers), _last_wrong(answers), _so_far(scored), notes)


def _last_wrong(answers: Any) -> DataFrame:
    """Return the last answer of each student to each exercise that was never right."""
    best = answers.groupby(_ONE_EXERCISE)["right"].transform("max")
    # Texts in this order: "" of a guess, "0", "1".
    tries = answers[best == "0"].drop_duplicates(_ONE_EXERCISE, keep="last")
    columns = tries[["exercise", "name", "answer"]]
    return columns.sort_values("exercise", kind="stable", ignore_index=True)


def _states(answers: Any) -> DataFrame:
    """Return the state of each exercise by student."""
    gains: Any = pd.to_numeric(answers["gain"], errors="coerce")
    guesses: Any = pd.to_numeric(answers["answer"], errors="coerce")
    distances = (guesses - gains).abs().round(1).astype(str)
    # A spreadsheet may have made something else of a number, which then has no distance.
    distances = (", off by " + distances).fillna("")
    is_guess = answers["gain"] != ""
    marks = answers["right"].mask(is_guess, answers["answer"] + distances)
    tries = answers.assign(mark=marks).groupby(_ONE_EXERCISE, sort=False)["mark"]
    return tries.agg(_describe_tries).unstack(fill_value="open").reset_index()


def _describe_tries(marks: Any) -> str:
    tries = list(marks)
    if "1" in tries:
        return f"✓ try {tries.index('1') + 1}"
    return f"✗ try {len(tries)}" if tries[-1] == "0" else tries[-1]


def _so_far(runs: Any) -> DataFrame:
    """Return the runs of one setting with the interval up to each; they are in their order."""
    settings = runs["method"] + " " + runs["settings"]
    usual = settings[settings.isin(settings.mode())]
    is_usual = settings.isin(usual[-1:])  # of equally frequent ones those that ended last
    shown = runs.assign(settings=settings)[is_usual]
    # A seed that two students trained is one observation.
    table = shown.drop_duplicates("seed", ignore_index=True)
    scores = 100 * table["spearman"].astype(float)
    intervals = [seed_interval(scores[: count + 1]) for count in table.index]
    table = table[["student", "settings", "seed"]].assign(score=scores)
    return table.join(DataFrame(intervals, columns=["mean", "low", "high"]))


def board_page(path: AnyPath, board: Board) -> Path:
    """Write a board as a page that needs no network, and return its path."""
    figure = narrowing_interval(board.runs)
    drawn = FigureRenderer().to_mimebundle(figure.to_dict())["text/html"]
    html = render(
        "board.html",
        board=board,
        figure=script_html() + drawn,
        table_html=table_html,
    )
    return write_page(path, html)
