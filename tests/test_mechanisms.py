"""Equations to try: the drawing follows the controls."""

import numpy as np
import pandas as pd
import pytest
import torch

from workbench import views
from workbench.ranks import rank_vectors

HOSTILE = '<script>alert(1)</script> & "quotes" $1'


def test_a_table_follows_its_controls_and_a_problem_is_shown_in_its_place():
    def draw(scale: float = 0.025, how: str = "sum") -> tuple[str, pd.DataFrame]:
        if how == "none":
            raise ValueError("choose another way")
        return f"{how} of {HOSTILE}", pd.DataFrame([[scale, np.nan]], [HOSTILE], ["a", "b"])

    view = views.Mechanism(draw, scale=(0.005, 0.2, 0.005), how=["avg", "sum", "none"])
    assert [control.value for control in view.controls.values()] == [0.025, "sum"]
    view.controls["scale"].value = 0.1
    for html in (view.drawing.value, view._repr_mimebundle_()["text/html"]):
        assert ">0.100</td>" in html
        assert "sum of &lt;script&gt;" in html
        assert "<script" not in html
    view.controls["how"].value = "none"
    assert 'role="alert"' in view.drawing.value
    assert "choose another way" in view._repr_mimebundle_()["text/html"]


def test_between_two_boundaries_the_rank_vector_stays_and_across_one_it_changes():
    view = views.explore_rank_plane()
    view.controls["across"].value, view.controls["up"].value = 0.2, 0.8
    assert "nearest first: a, b, c" in view.drawing.value
    areas, dots = view._figure.data
    corpus = np.stack([dots.x, dots.y], axis=1)[:-1]
    places = np.array([[0.2, 0.8], [0.22, 0.9], [0.3, 0.7], [0.2, 0.45], [0.9, 0.1]])
    vectors = rank_vectors(torch.tensor(-((places[:, None] - corpus[None]) ** 2).sum(axis=2))).numpy()
    similar = [areas.z[round(100 * y)][round(100 * x)] for x, y in places]
    assert similar == pytest.approx(vectors @ vectors[0])
    assert similar == pytest.approx([1, 1, 1, 0.5, -1]), "the first three are in one area"
    view.controls["across"].value, view.controls["up"].value = 0.5, 0.36
    assert "nearest first: c, " in view.drawing.value
