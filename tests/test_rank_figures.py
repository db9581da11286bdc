"""RankEncoder's figures show the numbers of their tables."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from workbench.data import load_pairs, load_sentences
from workbench.encoder import Encoder
from workbench.methods.rank_mixture import RankMixture, neighbour_table
from workbench.views import (
    closed_against_exact,
    neighbour_bins,
    neighbours_and_gain,
    two_losses,
    vector_spaces,
)
from workbench.views.rank_figures import principal_plane


def test_both_losses_are_drawn_where_they_are_positive():
    nan = float("nan")
    history = pd.DataFrame(
        {"step": [0, 10, 20], "observed_info_nce": [nan, 0.5, 0.1], "observed_rank_mse": [nan, 0, 0.2]}
    )
    contrastive, distilled, papers = two_losses(history, weight=0.5).data
    assert (list(contrastive.x), list(contrastive.y)) == ([10, 20], [0.5, 0.1])
    assert (list(distilled.x), list(distilled.y)) == ([20], [0.2])
    assert (list(papers.x), list(papers.y)) == ([20], [pytest.approx(0.02)])
    assert len(two_losses(history, weight=0.05).data) == 2, "the run has the paper's weight"
    with pytest.raises(ValueError, match="observed_info_nce"):
        two_losses(history[["step"]], weight=0.5)


def test_each_bin_holds_the_mean_overlap_and_the_difference_of_two_correlations():
    draw = np.random.default_rng(0)
    pairs = pd.DataFrame(draw.random((90, 3)), columns=["cosine", "ranked", "gold"]).assign(shared=range(90))
    bars, line = neighbours_and_gain(neighbour_bins(pairs, bins=3)).data
    order = pairs.sort_values("cosine")
    for place in range(3):
        part = order.iloc[30 * place : 30 * place + 30]
        assert bars.y[place] == pytest.approx(part["shared"].mean())
        ranked, cosine = (scipy.stats.spearmanr(part[name], part["gold"]).statistic for name in ("ranked", "cosine"))
        assert line.y[place] == pytest.approx(100 * (ranked - cosine))


def test_neighbours_that_a_pair_shares_are_near_to_both_sentences():
    corpus, pairs = load_sentences("world").sentences[:50], load_pairs("world-dev", limit=20)
    encode = Encoder.from_pretrained("world-encoder").encode
    encoded = encode(corpus)
    table = neighbour_table(RankMixture(encode, corpus, weight=1.0), pairs)
    for side1, side2, shared in zip(pairs.sentence1, pairs.sentence2, table["shared"], strict=True):
        nearest = [set(np.argsort(-(encoded @ encode(text)).numpy())[:6]) for text in (side1, side2)]
        assert shared == len(nearest[0] & nearest[1])


def test_the_plane_is_that_of_the_largest_variance():
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((40, 5)) * [1, 5, 0.1, 3, 0.1]
    points, share = principal_plane(rows)
    centred = rows - rows.mean(axis=0)
    _, values, right = np.linalg.svd(centred)
    assert share == pytest.approx((values[:2] ** 2).sum() / (values**2).sum())
    np.testing.assert_allclose(np.abs(points), np.abs(centred @ right[:2].T), atol=1e-9)
    assert (points[np.abs(points).argmax(axis=0), [0, 1]] > 0).all()


def test_a_sentence_has_one_colour_in_every_space():
    draw = np.random.default_rng(0)
    spaces = {"cosine": draw.random((20, 3)), "ranks": draw.random((20, 50))}
    lengths = pd.Series(range(20), name="words")
    by_length = vector_spaces(spaces, [str(row) for row in range(20)], colour=lengths).data
    assert [list(dots.marker.color) for dots in by_length] == [list(range(20))] * 2
    assert by_length[0].marker.colorbar.title.text == "words"
    left, right = vector_spaces(spaces, [str(row) for row in range(20)]).data
    np.testing.assert_array_equal(left.marker.color, right.marker.color)
    assert left.text == right.text


def test_every_pair_stands_at_its_two_similarities():
    draw = np.random.default_rng(0)
    found = {name: (draw.random((3, 2)), draw.random((3, 2))) for name in ("one", "two")}
    dots, line, other, _ = closed_against_exact(found).data
    assert (list(dots.x), list(dots.y)) == tuple(values.ravel().tolist() for values in found["one"])
    assert list(other.x) == found["two"][0].ravel().tolist()
    assert list(line.x) == list(line.y)
