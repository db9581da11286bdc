"""The board of a class."""

SHEET = "answers.csv"
SHEET_COLUMNS = ["time", "name", "notebook", "exercise", "right", "answer", "gain"]
