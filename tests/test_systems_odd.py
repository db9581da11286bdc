"""Odd files of scores: each is read rightly, or refused with the cause and a remedy."""

import gzip
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from workbench.errors import DataError
from workbench.systems import read_score_file, score_files

# Two systems; the order of minilm is that of gold, mpnet has one exchange.
ROWS = [
    ("a red kite hangs over the field", "a kite circles above the meadow", 4.0, 0.91, 0.8),
    ("two men carry a piano upstairs", "the oven is still warm", 1.0, 0.22, 0.3),
    ("the ferry leaves at noon", "the boat departs at twelve", 3.0, 0.55, 0.85),
    ("she lost her keys again", "nobody reads the timetable", 0.0, 0.11, 0.2),
]
HEADER = ["sentence1", "sentence2", "gold", "minilm", "mpnet"]
Content = str | bytes | pd.DataFrame


def table(header: list[str] | None = None, rows: Any = ROWS, sep: str = ",") -> str:
    lines = [header or HEADER, *rows]
    return "".join(sep.join(map(str, line)) + "\n" for line in lines)


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=HEADER).assign(**columns)


def write(folder: Path, files: dict[str, Content]) -> list[Path]:
    paths = []
    for name, content in files.items():
        path = folder / name
        if isinstance(content, pd.DataFrame):
            content.to_parquet(path)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content, encoding="utf-8", newline="")
        paths.append(path)
    return paths


def with_id(ids: list[Any], rows: Any = ROWS) -> str:
    return table(["id", *HEADER], [(name, *row) for name, row in zip(ids, rows, strict=True)])


PLAIN = table()
ONE = table(["sentence1", "sentence2", "minilm"], [(a, b, score) for a, b, _, score, _ in ROWS])
BOTH = {"minilm": 1.0, "mpnet": 0.8}

# Name -> files, the Spearman of each system, and a part of the notes.
READ: dict[str, tuple[dict[str, Content], dict[str, float], str]] = {
    "plain": ({"a.csv": PLAIN}, BOTH, "systems = minilm, mpnet; gold = gold"),
    **{
        f"ids called {name}": (
            {"a.csv": with_id(range(len(ROWS))).replace("id", name, 1)},
            BOTH,
            "systems = minilm, mpnet",
        )
        for name in (
            "sid",
            "qid1",
            "pid",
            "promptID",
            "id1",
            "__index_level_0__",
            "level_0",
        )
    },
    "an ending in capitals": ({"a.CSV": PLAIN}, BOTH, "gold = gold"),
    "byte order mark": ({"a.csv": b"\xef\xbb\xbf" + PLAIN.encode()}, BOTH, "gold = gold"),
    "utf-16": ({"a.csv": PLAIN.encode("utf-16")}, BOTH, "gold = gold"),
    "gzip": ({"a.csv.gz": gzip.compress(PLAIN.encode())}, BOTH, "gold = gold"),
    "semicolons": ({"a.csv": table(sep=";")}, BOTH, "gold = gold"),
    "tabs": ({"a.tsv": table(sep="\t")}, BOTH, "gold = gold"),
    "decimal commas": (
        {"a.csv": table(sep=";").replace(".", ",").replace("0,11", "1,1E-1")},
        BOTH,
        "gold = gold",
    ),
    "decimal commas and tabs": (
        {"a.tsv": table(sep="\t").replace(".", ",").replace("0,11", "")},
        {"minilm": 1.0, "mpnet": 0.5},
        "1 of 4 pairs left out",
    ),
    "line ends of windows": ({"a.csv": PLAIN.replace("\n", "\r\n")}, BOTH, "gold = gold"),
    "spaces in the header": (
        {"a.csv": table(["sentence1 ", " sentence2", " gold ", " my model", "mpnet "])},
        {"my model": 1.0, "mpnet": 0.8},
        "systems = my model, mpnet",
    ),
    "quoted line breaks": (
        {"a.csv": PLAIN.replace("the oven is still warm", '"the oven\nis, still warm"')},
        BOTH,
        "gold = gold",
    ),
    "index of pandas": (
        {"a.csv": frame().to_csv()},
        BOTH,
        "systems = minilm, mpnet; gold = gold",
    ),
    "index of pandas as a column": (
        {"a.csv": frame().reset_index().to_csv(index=False)},
        BOTH,
        "not read = index",
    ),
    "facts of a row, and what is larger for what is further": (
        {
            "a.csv": frame(
                cosine_distances=[0.1, 0.2, 0.3, 0.4],
                rank=[1, 2, 3, 4],
                length=[3, 4, 3, 5],
                year=2012,
            ).to_csv()
        },
        BOTH,
        "not read = cosine_distances, length, rank, year",
    ),
    "ids of queries": ({"a.parquet": frame(query_id=[7, 7, 9, 9])}, BOTH, "not read = query_id"),
    "empty rows": ({"a.csv": PLAIN.replace("\nthe", "\n,,,,\n\nthe")}, BOTH, "gold = gold"),
    "boolean gold": (
        {"a.csv": table(rows=[(*row[:2], row[2] > 2, *row[3:]) for row in ROWS])},
        {"minilm": 0.894, "mpnet": 0.894},
        "gold = gold",
    ),
    "gold is called score": (
        {"a.csv": PLAIN.replace("gold", "score (0-5)")},
        BOTH,
        "gold = score (0-5)",
    ),
    "gold and score": (
        {"a.csv": PLAIN.replace("minilm", "score")},
        {"score": 1.0, "mpnet": 0.8},
        "systems = score, mpnet; gold = gold",
    ),
    "score and similarity": (
        {"a.csv": PLAIN.replace("gold", "score").replace("minilm", "similarity")},
        {"similarity": 1.0, "mpnet": 0.8},
        "systems = similarity, mpnet; gold = score",
    ),
    "one system called score is called by its file": (
        {"minilm-v2.csv": table([*HEADER[:3], "score"], [row[:4] for row in ROWS])},
        {"minilm-v2": 1.0},
        "systems = score; gold = gold",
    ),
    "a system called rank: x": (
        {"a.csv": PLAIN.replace("mpnet", "rank: x")},
        {"minilm": 1.0, "rank: x": 0.8},
        "rank: x",
    ),
    "systems called by numbers": (
        {"a.csv": PLAIN.replace("minilm", "384").replace("mpnet", "768")},
        {"384": 1.0, "768": 0.8},
        "systems = 384, 768",
    ),
    "paths as names": (
        {"a.csv": PLAIN.replace("mpnet", "org/mpnet-base-v2")},
        {"minilm": 1.0, "org/mpnet-base-v2": 0.8},
        "org/mpnet-base-v2",
    ),
    "a column of remarks": (
        {"a.parquet": frame(remark=["fine", "", "odd", "12"])},
        BOTH,
        "not read = remark",
    ),
    "an empty column": ({"a.parquet": frame(later=[None] * 4)}, BOTH, "not read = later"),
    "missing cell": (
        {"a.csv": PLAIN.replace("0.55", "")},
        {"minilm": 1.0, "mpnet": 1.0},
        "1 of 4 pairs left out, without a score of every system",
    ),
    "nullable integers": (
        {"a.parquet": frame(minilm=pd.array([9, 2, None, 1], dtype="Int64"))},
        {"minilm": 1.0, "mpnet": 1.0},
        "1 of 4 pairs left out",
    ),
    "single precision": ({"a.parquet": frame().astype({"minilm": "float32"})}, BOTH, ""),
    "json lines": ({"a.jsonl": frame().to_json(orient="records", lines=True)}, BOTH, ""),
    "scientific notation": ({"a.csv": PLAIN.replace("0.11", "1.1e-1")}, BOTH, ""),
    "negative scores": ({"a.csv": PLAIN.replace("0.11", "-12")}, BOTH, ""),
    "duplicate pairs in one file": (
        {"a.csv": PLAIN + f"{ROWS[0][0]},{ROWS[0][1]},4,0.95,0.9\n"},
        {"minilm": 0.975, "mpnet": 0.821},
        "",
    ),
    "ids as 1 and 1.0": (
        {
            "a.csv": with_id([1, 2, 3, 4]),
            "new.csv": "id,predicted\n4.0,.1\n3.0,.2\n2.0,.3\n1.0,.4\n",
        },
        BOTH | {"new": 0.8},
        "systems = predicted; gold = none",
    ),
    "a row is missing in one file": (
        {"a.csv": with_id(list("wxyz")), "new.csv": "pair_id,score\nw,.9\nx,.5\nz,.1\n"},
        {"minilm": 1.0, "mpnet": 1.0, "new": 1.0},
        "1 of 4 pairs left out",
    ),
    "a row is only in one file": (
        {"a.csv": with_id(list("wxyz")), "new.csv": "id,new\nw,4\nx,1\ny,3\nz,0\nother,7\n"},
        BOTH | {"new": 1.0},
        "1 rows left out",
    ),
    "other gold for one pair": (
        {
            "a.csv": with_id(list("wxyz")),
            "new.csv": "id,gold,new\nw,4,4\nx,1,1\ny,3,3\nz,5,0\n",
        },
        {"minilm": 1.0, "mpnet": 0.5, "new": 1.0},
        "1 rows left out",
    ),
}

NEW = "sentence1,sentence2,new\n"
# Name -> files, and the words of the refusal.
REFUSED: dict[str, tuple[dict[str, Content], str]] = {
    "decimal commas in quotes": (
        {"a.csv": re.sub(r"(\d)\.(\d+)", r'"\1,\2"', PLAIN)},
        "a.csv: systems = none.*not read = minilm, mpnet.*decimal point",
    ),
    "a decimal comma among points": (
        {"a.csv": table(sep=";").replace("0.91", "0,91")},
        "a.csv, line 2: minilm is '0,91', not a finite number; correct it",
    ),
    "percent signs": (
        {"a.csv": PLAIN.replace("0.91", "0.91%")},
        "minilm is '0.91%', not a finite number",
    ),
    "two columns of one name": (
        {"a.csv": PLAIN.replace("mpnet", "minilm")},
        r"a column name is repeated \('minilm'\); rename or remove one",
    ),
    "text among scores": (
        {"a.csv": PLAIN.replace("0.22", "n/a")},
        "a.csv, line 3: minilm is 'n/a', not a finite number; correct it, or leave it empty",
    ),
    "infinity": ({"a.csv": PLAIN.replace("0.22", "inf")}, "line 3: minilm is 'inf', not a finite"),
    "nan": ({"a.csv": PLAIN.replace("0.22", "nan")}, "line 3: minilm is 'nan', not a finite"),
    "nan in json": (
        {"a.jsonl": frame().to_json(orient="records", lines=True).replace("0.22", '"NaN"')},
        "line 2: minilm is 'NaN', not a finite",
    ),
    "a row of totals": (
        {"a.csv": PLAIN + "Mean,,2,0.4,0.5\n"},
        "line 6: sentence2 is empty",
    ),
    "a row is too long": (
        {"a.csv": PLAIN.replace("kite circles", "kite, circles")},
        "Expected 5 fields in line 2, saw 6; put a field that has ',' in quotes",
    ),
    "gold is missing in a row": (
        {"a.csv": PLAIN.replace("1.0", "")},
        "line 3: gold is '', not a finite number",
    ),
    "text as gold": ({"a.csv": PLAIN.replace("4.0", "high")}, "line 2: gold is 'high', not"),
    "two columns of gold": (
        {"a.csv": PLAIN.replace("mpnet", "rating")},
        "gold = gold, rating;.* one gold .*choose with --columns gold=NAME",
    ),
    "only gold": (
        {"a.csv": table(HEADER[:3], [row[:3] for row in ROWS])},
        "a.csv: systems = none; gold = gold",
    ),
    "no texts": (
        {"a.csv": "id,gold,minilm\n1,4,.9\n2,1,.2\n"},
        "gold = gold; texts = none; .*two texts: choose with --columns .*sentence1=NAME",
    ),
    "no gold": (
        {"a.csv": ONE},
        "gold = none; .* one gold .*gold=NAME.*, or give gold and texts with --on FILE",
    ),
    "texts with other names": (
        {"a.csv": PLAIN.replace("sentence1", "left").replace("sentence2", "right")},
        "texts = none; not read = left, right.*two texts",
    ),
    "classes as numbers": (
        {
            "a.csv": table(["premise", "hypothesis", "label", *HEADER[3:]])
            .replace(",4.0,", ",2,")
            .replace(",3.0,", ",2,")
        },
        "label holds classes as numbers",
    ),
    "double ids": (
        {"a.csv": with_id([1, 2, 2, 4])},
        "a.csv: id 2 occurs twice; give each pair an id of its own",
    ),
    "two files without ids or texts": (
        {"a.csv": PLAIN, "b.csv": "new\n1\n3\n2\n2\n"},
        "b.csv: .*it lacks a column id or both texts",
    ),
    "ids in one file, texts in the other": (
        {"a.csv": PLAIN, "b.csv": "id,new\n1,1\n2,3\n3,2\n4,2\n"},
        "b.csv: .*it lacks a column id or both texts",
    ),
    "reversed pairs": (
        {"a.csv": PLAIN, "b.csv": NEW + "".join(f"{b},{a},{c}\n" for a, b, c, *_ in ROWS)},
        "no pair has a score of every system; its id, texts and gold must be the same in all",
    ),
    "one pair twice with other scores": (
        {
            "a.csv": PLAIN,
            "b.csv": NEW
            + f"{ROWS[0][0]},{ROWS[0][1]},1\n" * 1
            + "".join(f"{a},{b},{c}\n" for a, b, c, *_ in ROWS),
        },
        "occurs twice with other scores; add to all files a column id",
    ),
    "other texts under one id": (
        {"a.csv": with_id([1, 2, 3, 4]), "b.csv": "id," + NEW + "1,x,y,1\n2,v,w,2\n"},
        "no pair has a score of every system",
    ),
    "nothing but a header": ({"a.csv": ",".join(HEADER) + "\n"}, "but no rows"),
    "an empty file": ({"a.csv": ""}, "the file is empty"),
    "a spreadsheet": ({"a.xlsx": b"PK"}, "convert the file"),
    "the name of a published set": ({"stsb-test.csv": PLAIN}, "rename the file"),
}


@pytest.mark.parametrize("name", READ)
def test_an_odd_file_is_read(name: str, tmp_path: Path):
    files, spearmans, note = READ[name]
    scores = read_score_file(write(tmp_path, files))
    found = {
        system: report.metrics[suite]["spearman"]
        for system, report in scores.first.items()
        for suite in scores.pairs
    }
    assert found == pytest.approx(spearmans, abs=0.001)
    assert list(found) == list(spearmans)
    assert note in "\n".join(scores.notes)


def test_a_system_of_two_files_is_called_by_the_later_one(tmp_path: Path):
    rows = ONE.replace("0.11", "0.7")
    *files, last = write(tmp_path, {"a.csv": PLAIN, "b.csv": rows, "c.csv": ONE})
    scores = read_score_file([*files, last])
    assert list(scores.reports) == [*BOTH, *(f"minilm ({path})" for path in (files[1], last))]
    found = [report.metrics["a"]["spearman"] for report in scores.first.values()]
    assert found == pytest.approx([1.0, 0.8, 0.4, 1.0])


@pytest.mark.parametrize("name", REFUSED)
def test_an_odd_file_is_refused(name: str, tmp_path: Path):
    files, words = REFUSED[name]
    with pytest.raises(DataError, match=words) as refusal:
        read_score_file(write(tmp_path, files))
    print(name, "|", str(refusal.value).replace(str(tmp_path), ""))


@pytest.mark.parametrize("count", [1, 2])
def test_undefined_correlations_are_allowed(count: int, tmp_path: Path):
    """One row, and constant gold and scores."""
    rows = [(*row[:2], 3, 0.5, row[4]) for row in ROWS[:count]]
    scores = read_score_file(write(tmp_path, {"a.csv": table(rows=rows)}))
    assert all(math.isnan(report.metrics["a"]["spearman"]) for report in scores.first.values())
    assert len(scores.pairs["a"]) == count


def test_a_folder_has_a_file_for_each_system(tmp_path: Path):
    folder = tmp_path / "scores"
    folder.mkdir()
    one = "sentence1,sentence2,gold,score\n"
    (folder / "remarks.txt").write_text("made in May\n")
    for name, place in (("minilm", 3), ("mpnet", 4)):
        lines = [f"{row[0]},{row[1]},{row[2]},{row[place]}\n" for row in ROWS]
        (folder / f"{name}.csv").write_text(one + "".join(lines))
    assert score_files(folder) == [folder / "minilm.csv", folder / "mpnet.csv"]
    scores = read_score_file([folder])
    found = {name: report.metrics["scores"] for name, report in scores.first.items()}
    assert {name: own["spearman"] for name, own in found.items()} == pytest.approx(BOTH)
    pairs = folder / "gold.csv"
    pairs.write_text(table(HEADER[:3], [row[:3] for row in ROWS]))
    for on in (pairs, f"{folder}/./gold.csv"):
        assert list(read_score_file([folder], on=on).reports) == list(BOTH)
    # What Jupyter and macOS leave in a folder, and nobody sees.
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / "._minilm.csv").write_bytes(b"\0\5\26\7")
    assert len(score_files(folder)) == 3
    (folder / "config.json").write_text("{}")
    assert score_files(folder) == []


def test_a_file_may_have_its_own_gold_for_others(tmp_path: Path):
    first, second = write(tmp_path, {"a.csv": PLAIN, "b.csv": ONE.replace("minilm", "new")})
    scores = read_score_file([first, second], on=first)
    assert list(scores.reports) == [*BOTH, "new"]


def test_another_file_is_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("first.run").write_text("q1 Q0 d1 1 0.5 first\n")
    for name in ("first.run", "stsb-test"):
        assert score_files(name) == []
        with pytest.raises(DataError, match=rf"{name}: expected .*convert the file"):
            read_score_file([name])
