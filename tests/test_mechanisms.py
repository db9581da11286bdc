"""Equations to try: the drawings show what the library's losses and ranks give."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from traitlets import TraitError

from workbench import views
from workbench.encoder import Encoder
from workbench.errors import SettingError
from workbench.losses import compose, cosent, cosine_matrix, info_nce, listnet
from workbench.ranks import rank_vectors
from workbench.views.mechanisms import comparison_weights, rank_similarities

HOSTILE = '<script>alert(1)</script> & "quotes" $1 \u202eright \U0001f600\nline ' + "long " * 1000
SENTENCES = ["the anchor", "near", HOSTILE, "far"]
STUDENT, TEACHER = [1.0, 0.6, 0.5, 0.3], [1.0, 0.9, 0.85, 0.1]
COSINES, LABELS = np.array([0.9, -0.1, 0.4, 0.4, 0.3]), np.array([0.0, 1.0, 1.0, 2.5, 4.0])


def drawn(view: Any, **values: Any) -> str:
    """Set controls as a reader does; return the HTML."""
    for name, value in values.items():
        view.controls[name].value = value
    return view.drawing.value


def numbers(html: str) -> np.ndarray:
    """Return the rows of the table; empty cells are nan."""
    rows = re.findall(r"<tr><th[^>]*scope=\"row\".*?</tr>", html, flags=re.DOTALL)
    cells = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in rows]
    return np.array([[float(cell or "nan") for cell in row] for row in cells])


def test_the_distributions_sum_to_one_and_the_pull_is_the_gradient_of_listnet():
    view = views.explore_listnet(SENTENCES, STUDENT, TEACHER)
    for temperature in (0.01, 0.05, 0.2):
        html = drawn(view, student_temperature=temperature, teacher_temperature=0.1)
        shown = numbers(html)
        assert shown[:, [1, 3]].sum(axis=0) == pytest.approx([1, 1], abs=3 * 0.0005)  # three numbers of three decimals
        student = torch.tensor([STUDENT], dtype=torch.float64, requires_grad=True)
        teacher = torch.tensor([TEACHER], dtype=torch.float64)
        loss = listnet(student, teacher, student_temperature=temperature, teacher_temperature=0.1)
        loss.backward()
        assert f"ListNet {float(loss.detach()):.3f}" in html
        assert shown[:, 4] == pytest.approx(-temperature * student.grad[0, 1:].numpy(), abs=0.0006)
    for html in (view.drawing.value, view._repr_mimebundle_()["text/html"]):
        assert "<script" not in html
        assert "&lt;script&gt;alert(1)" in html


@pytest.mark.parametrize("scale", [1, 20, 100])
def test_the_weights_of_the_comparisons_are_the_gradient_of_cosent(scale: int):
    weights = comparison_weights(COSINES, LABELS, scale)
    assert np.isnan(weights).sum() == 25 - 9  # 10 pairs of pairs, of which one has equal labels
    cosines = torch.tensor(COSINES, requires_grad=True)
    loss = cosent(cosines, torch.tensor(LABELS), scale=float(scale))
    loss.backward()
    pull = np.nansum(weights, axis=1) - np.nansum(weights, axis=0)
    assert pull == pytest.approx(-cosines.grad.numpy() / scale)
    assert np.nansum(weights) == pytest.approx(-np.expm1(-loss.item()))
    shown = numbers(drawn(views.explore_cosent(COSINES, LABELS), scale=scale))
    assert shown[:, -1] == pytest.approx(pull[np.argsort(-LABELS, kind="stable")], abs=0.0006)


def test_the_larger_lambda_the_more_the_wrong_comparisons_weigh():
    view = views.explore_cosent(COSINES, LABELS, scale=1)
    shares = [int(re.search(r"have (\d+)%", drawn(view, scale=scale))[1]) for scale in (1, 5, 20)]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_the_composition_is_that_of_the_loss():
    encoder = Encoder.from_pretrained("world-encoder", device="cpu", precision="fp32")
    sentences = ["the chef chops the onion", "the boat sinks at dawn", "Yes"]
    view = views.explore_composition(encoder, sentences)
    left, right = ["the chef", "the boat", "Yes"], ["chops the onion", "sinks at dawn", "Yes"]
    for how in ("avg", "sum", "concat_halves"):
        sides = [encoder.vectors(side) for side in (left, right)]
        cosines = cosine_matrix(encoder.vectors(sentences), compose(sides, how))
        html = drawn(view, how=how)
        assert numbers(html) == pytest.approx(cosines.numpy(), abs=0.0006)
        assert f"loss {float(info_nce(cosines, temperature=0.05)):.3f}" in html
    assert "the chef ‖ chops the onion" in html
    assert "the ‖ chef ‖ chops ‖ the onion" in drawn(view, how="avg", parts=4)
    assert "use avg or sum" in drawn(view, how="concat_halves")


def test_what_cannot_be_shown_is_refused_or_explained(tmp_path: Path):
    with pytest.raises(SettingError, match="at least two"):
        views.explore_composition("world-encoder", [])
    for refused in (
        lambda: views.explore_composition("world-encoder", SENTENCES, how="max"),
        lambda: views.explore_cosent(COSINES, LABELS, scale=10),
        lambda: views.explore_rank_plane(size=7),
    ):
        with pytest.raises(TraitError):
            refused()
    view = views.explore_composition(tmp_path / "none", SENTENCES)
    assert "none" in view.drawing.value
    assert 'role="alert"' in view._repr_mimebundle_()["text/html"]


def test_between_two_boundaries_the_rank_vector_stays_and_across_one_it_changes():
    view = views.explore_rank_plane(x=0.2, y=0.8)
    assert "nearest first: <b>a, b, c</b>" in view.drawing.value
    areas, edges, dots = view._figure.data
    corpus = np.stack([dots.x, dots.y], axis=1)[:-1]
    places = np.array([[0.2, 0.8], [0.22, 0.9], [0.3, 0.7], [0.2, 0.45], [0.9, 0.1]])
    vectors = rank_vectors(torch.tensor(-((places[:, None] - corpus[None]) ** 2).sum(axis=2))).numpy()
    found = rank_similarities(places[0], places, corpus)
    assert found == pytest.approx(vectors @ vectors[0])
    assert found == pytest.approx([1, 1, 1, 0.5, -1]), "the first three are in one area"
    assert [areas.z[round(100 * y)][round(100 * x)] for x, y in places] == pytest.approx(found)
    assert set(np.ravel(areas.z)) >= {1, 0.5, -0.5, -1}
    assert len(edges.x) == 3 * 3
    assert "<b>c, " in drawn(view, x=0.5, y=0.36)
    drawn(view, size=5)
    assert len(edges.x) == 3 * 10
