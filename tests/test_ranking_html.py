"""One query beside gold and models: what stands in the table and the picture, and which tables belong together."""

import base64
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from workbench.look import (
    INK,
    SHADES,
    of_suite,
    ordered_queries,
    query_view,
    rank_slopes,
    ranking_html,
    ranking_tables,
    suites_of,
)
from workbench.metrics import kendall

GOLD = [5.0, 4.0, 2.0, 2.0, 0.0]
RIGHT = [0.9, 0.8, 0.4, 0.3, 0.1]
TIED = [0.1, 0.5, 0.5, 0.5, 0.9]
HOSTILE = '<img src=x onerror="alert(1)"> & "quotes" $x$ %{y}'


def table(*scores: list[float], suite: str = "few", target: str = "target") -> pd.DataFrame:
    """A query of five targets for each list of scores."""
    parts = [
        pd.DataFrame(
            {
                "suite": suite,
                "query_id": f"q{number}",
                "target_id": [f"{number}.{place}" for place in range(5)],
                "query": f"query {number}",
                "target": [f"{target} {place}" for place in range(5)],
                "gold": GOLD,
                "score": values,
                "rank": pd.Series(values).rank(ascending=False).to_numpy(),
            }
        )
        for number, values in enumerate(scores)
    ]
    return pd.concat(parts, ignore_index=True)


class _Cells(HTMLParser):
    """The text of every row's cells, as a reader without styles sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        self._inside = tag in ("td", "th") or (self._inside and tag in ("b", "small", "br"))

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data + "|"


def shown(html: str) -> list[list[str]]:
    return [[cell.strip("|") for cell in row] for row in _Cells(html).rows]


def test_the_table_has_gold_and_every_rank_with_its_distance_ties_and_score():
    html = ranking_html({"before": table(TIED), "after": table(RIGHT)}, "q0")._repr_html_()
    assert shown(html) == [
        ["", "target", "gold", "gold rank", "before", "after"],
        ["A", "target 0", "5", "1", "5| ▼4|0.100", "1|0.900"],
        ["B", "target 1", "4", "2", "=3| ▼1|0.500", "2|0.800"],
        ["C", "target 2", "2", "=3.5", "=3| ▲0.5|0.500", "3| ▲0.5|0.400"],
        ["D", "target 3", "2", "=3.5", "=3| ▲0.5|0.500", "4| ▼0.5|0.300"],
        ["E", "target 4", "0", "5", "1| ▲4|0.900", "5|0.100"],
        ["KCC", f"{100 * kendall(GOLD, TIED):.1f}", f"{100 * kendall(GOLD, RIGHT):.1f}"],
        ["NDCG", "65.0", "100.0"],  # by hand: 8/3 (1/log 3 + 1/log 4 + 1/log 5) + 5/log 6 over 9.3851, logs of base 2
    ]


def test_text_is_shown_as_it_is_whole_and_never_as_markup():
    long = HOSTILE + " word" * 2000
    hostile = table(RIGHT, target=long).assign(query=long)
    html = ranking_html({HOSTILE: hostile}, "q0", chart=True).html
    assert _Cells(html).tags == {"div", "p", "b", "small", "table", "thead", "tbody", "tr", "th", "td", "br", "img"}
    assert "onerror=" not in re.sub(r"&[a-z]+;.*?(?=<)", "", html)
    assert shown(html)[1][1] == f"{long} 0"
    assert "white-space:normal" in html
    assert "text-align:left" in html
    figure = rank_slopes(query_view(ranking_tables({"m": hostile}), "q0"))
    assert "<img" not in figure.data[0].text
    assert max(map(len, figure.data[0].text.split("<br>"))) < 200


def test_the_picture_has_a_line_a_target_and_letters_where_the_ranks_are():
    html = ranking_html({"before": table(TIED)}, "q0", chart=True).html
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    picture = ET.fromstring(base64.b64decode(data))
    space = "{http://www.w3.org/2000/svg}"
    lines = [line.attrib["points"] for line in picture.iter(f"{space}polyline")]
    ends = [float(points.split()[1].split(",")[1]) for points in lines]
    assert np.argsort(ends, kind="stable").tolist() == [4, 1, 2, 3, 0]
    assert ends[1] == ends[2] == ends[3]
    assert [text.text for text in picture.iter(f"{space}text")] == [
        *("gold", "A", "B", "C D", "E"),
        *("before", "E", "B C D", "A"),
    ]
    assert 'alt="From nearest to furthest by gold: A, B, C=D, E; before: E, B=C=D, A"' in html


def test_the_figure_has_rank_1_at_the_top_and_joins_gold_to_every_model():
    figure = rank_slopes(query_view(ranking_tables({"before": table(TIED), "after": table(RIGHT)}), "q0"))
    assert list(figure.data[0].x) == ["gold", "before", "after"]
    assert [list(trace.y) for trace in figure.data[:5]] == [[1, 5, 1], [2, 3, 2], [3.5, 3, 3], [3.5, 3, 4], [5, 1, 5]]
    bottom, top = figure.layout.yaxis.range
    assert top < 1
    assert bottom > 5


def _luminance(colour: str) -> float:
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def test_every_shade_is_readable_and_darker_than_the_one_before():
    shades = [_luminance(colour) for _, colour in SHADES]
    # 4.5 is the contrast that WCAG 2 asks of text at level AA.
    assert all((shade + 0.05) / (_luminance(INK) + 0.05) >= 4.5 for shade in shades)
    assert shades[1:] == sorted(shades[1:], reverse=True)


def test_a_metric_that_is_undefined_says_so():
    html = ranking_html({"constant": table([0.5] * 5)}, "q0").html
    assert shown(html)[-2] == ["KCC", "undefined"]


@pytest.mark.parametrize(
    ("by", "order"),
    [("data", ["q0", "q1", "q2"]), ("disagreement", ["q1", "q2", "q0"]), ("worst", ["q1", "q0", "q2"])],
)
def test_queries_are_ordered_by_what_was_asked(by: str, order: list[str]):
    swapped = [0.8, 0.9, 0.4, 0.3, 0.1]
    tables = {"a": table(swapped, TIED, RIGHT), "b": table(swapped, RIGHT, swapped)}
    assert ordered_queries(tables, by, "a", "b")["query_id"].tolist() == order


def test_the_largest_gain_comes_first_with_its_size():
    tables = {"a": table(RIGHT, TIED), "b": table(TIED, RIGHT)}
    found = ordered_queries(tables, "gain", "a", "b")
    assert found["query_id"].tolist() == ["q1", "q0"]
    gain = kendall(GOLD, RIGHT) - kendall(GOLD, TIED)
    assert found["value"].tolist() == pytest.approx([gain, -gain], abs=1e-15)


def test_each_suite_shows_the_labels_that_rank_it():
    both = pd.concat([table(RIGHT), table(TIED, suite="other")])
    tables = ranking_tables({"a": both, "b": table(TIED)})
    assert suites_of(tables) == ["few", "other"]
    assert list(of_suite(tables, "few")) == ["a", "b"]
    assert list(of_suite(tables, "other")) == ["a"]
    assert list(query_view(tables, "q0", suite="other").ranks) == ["a"]


def test_past_z_letters_go_on_in_pairs():
    many = pd.concat([table(RIGHT).assign(target_id=[f"{part}.{place}" for place in range(5)]) for part in range(6)])
    assert query_view({"m": many}, "q0").letters[25:] == ["Z", "AA", "AB", "AC", "AD"]


MISTAKES: dict[str, Callable[[], object]] = {
    "no rankings to look at": lambda: ranking_tables({}),
    "'m' is a list; give a ranking table": lambda: ranking_tables({"m": [1]}),
    "'m' has no column score, rank": lambda: ranking_tables({"m": table(RIGHT).drop(columns=["score", "rank"])}),
    "'m' ranks nothing": lambda: ranking_tables({"m": table(RIGHT)[:0]}),
    "'m' has target '0.0' of query 'q0' twice": lambda: ranking_tables(
        {"m": pd.concat([table(RIGHT), table(RIGHT)[:1]])}
    ),
    "a label is 'gold'": lambda: ranking_tables({"gold": table(RIGHT)}),
    "do not rank the same targets of 'few': 5 stand in 'a' alone, the first is target '1.0' of query 'q1'": (
        lambda: ranking_tables({"a": table(RIGHT, RIGHT), "b": table(RIGHT)})
    ),
    "'a' and 'b' have another gold for 1 targets of 'few'": lambda: ranking_tables(
        {"a": table(RIGHT), "b": table(RIGHT).assign(gold=[5, 4, 2, 2, 1])}
    ),
    "'a' and 'b' have another target for 5": lambda: ranking_tables(
        {"a": table(RIGHT), "b": table(RIGHT, target="else")}
    ),
    "no query 'q9' in the table; it has q0": lambda: ranking_html({"m": table(RIGHT)}, "q9"),
    "no suite 'fwe' in these rankings; they have few": lambda: ranking_html({"m": table(RIGHT)}, "q0", suite="fwe"),
    "no order 'worse'": lambda: ordered_queries({"m": table(RIGHT)}, "worse", "m", "m"),
    "no rankings 'n'; there are m": lambda: ordered_queries({"m": table(RIGHT)}, "worst", "n", "m"),
}


@pytest.mark.parametrize(("text", "call"), MISTAKES.items(), ids=MISTAKES.keys())
def test_a_mistake_is_named_with_its_cure(text: str, call: Callable[[], object]):
    with pytest.raises((ValueError, TypeError), match=re.escape(text)):
        call()
