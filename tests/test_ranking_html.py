"""One query under gold and models: its table, its chart, and refused tables."""

import base64
import re
import xml.etree.ElementTree as ET
from html import unescape

import numpy as np
import pandas as pd
import pytest

from workbench.metrics import kendall
from workbench.views import most_changed, ranking_html

GOLD = [5.0, 4.0, 2.0, 2.0, 0.0]
RIGHT = [0.9, 0.8, 0.4, 0.3, 0.1]
TIED = [0.1, 0.5, 0.5, 0.5, 0.9]
HOSTILE = '<img src=x onerror="alert(1)"> & "quotes" $x$ %{y}'


def table(*scores: list[float], suite: str = "few", target: str = "target") -> pd.DataFrame:
    """Return a query with five targets for each list of scores."""
    rows = [
        (
            suite,
            f"q{number}",
            f"{number}.{place}",
            f"query {number}",
            f"{target} {place}",
            GOLD[place],
            score,
        )
        for number, values in enumerate(scores)
        for place, score in enumerate(values)
    ]
    return pd.DataFrame(
        rows, columns=["suite", "query_id", "target_id", "query", "target", "gold", "score"]
    )


def shown(html: str) -> list[list[str]]:
    """Return the text of the cells of every row, with | for the tags in a cell."""
    rows = [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S)
        for row in re.findall(r"<tr.*?</tr>", html, re.S)
    ]
    return [[unescape(re.sub(r"(<[^>]+>)+", "|", cell)).strip("|") for cell in row] for row in rows]


SVG = "{http://www.w3.org/2000/svg}"
SHAPES = {"svg", "rect", "g", "title", "polyline", "path", "text"}


def drawn(html: str) -> ET.Element:
    """Return the slope chart, whose picture is in the HTML."""
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    return ET.fromstring(base64.b64decode(data))


def heights(picture: ET.Element) -> list[list[float]]:
    """Return the height of each line of a slope chart at gold, and at each label."""
    lines = [line.attrib["d"] for line in picture.iter(f"{SVG}path")]
    parts = [re.findall(r"M\S+ ([\d.]+)L\S+ ([\d.]+)", line) for line in lines]
    return [[float(line[0][0]), *(float(end) for _, end in line)] for line in parts]


def test_table_and_chart_have_gold_and_every_rank():
    html = ranking_html({"before": table(TIED), "after": table(RIGHT)}, "q0").data
    assert shown(html) == [
        ["", "target", "gold", "gold rank", "before", "after"],
        ["A", "target 0", "5", "1", "5| ▼4|0.100", "1|0.900"],
        ["B", "target 1", "4", "2", "=3| ▼1|0.500", "2|0.800"],
        ["C", "target 2", "2", "=3.5", "=3|0.500", "3|0.400"],
        ["D", "target 3", "2", "=3.5", "=3|0.500", "4|0.300"],
        ["E", "target 4", "0", "5", "1| ▲4|0.900", "5|0.100"],
        ["KCC", f"{100 * kendall(GOLD, TIED):.1f}", f"{100 * kendall(GOLD, RIGHT):.1f}"],
        # By hand: 8/3 (1/log 3 + 1/log 4 + 1/log 5) + 5/log 6 over 9.3851, logs of base 2.
        ["NDCG", "65.0", "100.0"],
    ]
    picture = drawn(html)
    down = heights(picture)
    scale = (down[4][0] - down[0][0]) / 4
    ranks = [[1, 5, 1], [2, 3, 2], [3.5, 3, 3], [3.5, 3, 4], [5, 1, 5]]
    assert [[1 + (y - down[0][0]) / scale for y in line] for line in down] == ranks
    assert (
        picture.findtext(f".//{SVG}title")
        == "A: target 0\ngold: rank 1\nbefore: rank 5\nafter: rank 1"
    )


def test_the_lines_of_a_chart_run_forward_and_many_tied_letters_stay_in_their_column():
    count = 16
    flat = [0.0] * count
    rows = {
        "suite": "flat",
        "query_id": "q0",
        "target_id": [f"t{place}" for place in range(count)],
        "query": "a query",
        "target": [f"target {place}" for place in range(count)],
        "gold": [1.0] * 4 + [0.0] * (count - 4),
        "score": flat,
    }
    systems = {f"system {number}": pd.DataFrame(rows) for number in range(5)}
    picture = drawn(ranking_html(systems, "q0").data)
    for line in picture.iter(f"{SVG}path"):
        steps = re.findall(r"M([\d.]+) \S+?L([\d.]+) ", line.attrib["d"])
        assert len(steps) == 5
        assert all(float(begin) < float(end) for begin, end in steps)
    labels = [text.text for text in picture.iter(f"{SVG}text") if "transform" not in text.attrib]
    assert labels == ["A…D", "E…P"] + ["A…P"] * 5


def test_text_is_shown_as_it_is_whole_and_never_as_markup():
    long = HOSTILE + " word" * 2000
    html = ranking_html({HOSTILE: table(RIGHT, target=long).assign(query=long)}, "q0").data
    table_tags = {"table", "thead", "tbody", "tr", "th", "td"}
    others = {"div", "p", "b", "small", "br", "img", "details", "summary"}
    assert set(re.findall(r"<(\w+)", html)) == table_tags | others
    assert shown(html)[1][1].replace("|", "") == f"{long} 0", (
        "its beginning, and the rest behind it"
    )
    picture = drawn(html)
    assert {element.tag.rpartition("}")[2] for element in picture.iter()} <= SHAPES
    assert len(picture.findtext(f".//{SVG}title")) < 600, (
        "a title of 10,000 characters hides the screen"
    )


def test_of_a_long_list_the_targets_nearest_under_gold_or_a_model_are_shown_at_their_true_ranks():
    ranks = np.arange(1.0, 2001)
    rows = {
        "suite": "long",
        "query_id": "q0",
        "target_id": ranks,
        "query": "all",
        "gold": np.linspace(5, 0, 2000),
    }
    right = pd.DataFrame(
        {**rows, "target": [f"target {place}" for place in range(2000)], "score": -ranks}
    )
    html = ranking_html({"right": right, "wrong": right.assign(score=ranks)}, "q0", targets=10).data
    cells, nearest = shown(html), [*range(5), *range(1995, 2000)]
    assert [row[1] for row in cells[1:11]] == [f"target {place}" for place in nearest]
    assert [row[3] for row in cells[1:11]] == [f"{place + 1}" for place in nearest]
    assert "10 of 2,000 targets" in html
    assert cells[-2][1:] == ["100.0", "-100.0"], "KCC is that of all targets"
    picture = drawn(html)
    lines = heights(picture)
    assert len(lines) == 20
    assert max(map(max, lines)) < float(picture.attrib["height"]) < 900


def test_most_changed_shows_the_query_of_the_largest_disagreement():
    tables = {"a": table(RIGHT, RIGHT), "b": table(RIGHT, TIED), "c": table(TIED, RIGHT)}
    assert "query 0" in most_changed(tables).data
    other = {
        label: pd.concat([found, found.assign(suite="other")]) for label, found in tables.items()
    }
    assert "(other, q1)" in most_changed(other, ("a", "b"), suite="other").data
    assert "(other, q0)" in most_changed({**other, "b": tables["b"]}, suite="other").data, (
        "a label without the suite"
    )
    text = "no query of sets (few ranked); a query is a sentence in at least 4 pairs"
    assert text in most_changed(tables, suite="sets").data


def test_mistakes_are_explained():
    few = table(RIGHT)
    other = few.assign(gold=[5, 4, 2, 2, 1])
    for text, tables, query in (
        ("no query of any suite (none ranked)", {}, "q0"),
        ("'gold' is the name of the gold scores", {"gold": few}, "q0"),
        (
            "no query of any suite (none ranked); a query is a sentence in at least 4 pairs",
            {"m": few[:0]},
            "q0",
        ),
        ("5 rows are in one alone", {"a": table(RIGHT, RIGHT), "b": few}, "q0"),
        ("2 rows are in one alone", {"a": few, "b": other}, "q0"),
    ):
        with pytest.raises(ValueError, match=re.escape(text)):
            ranking_html(tables, query)
    with pytest.raises(KeyError, match="q9"):
        ranking_html({"m": few}, "q9")
