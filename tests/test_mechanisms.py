"""How a method works, to try: what the views show is what the library's losses and ranks give."""

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from workbench.encoder import Encoder
from workbench.losses import compose, cosent, cosine_matrix, info_nce, listnet
from workbench.ranks import rank_vectors
from workbench.views import Composition, Ordering, RankPlane, TopOne

HOSTILE = '<script>alert(1)</script> & "quotes" $1 \u202eright \U0001f600\nline ' + "long " * 1000
SENTENCES = ["the anchor", "near", HOSTILE, "far"]
STUDENT, TEACHER = [1.0, 0.6, 0.5, 0.3], [1.0, 0.9, 0.85, 0.1]
COSINES, LABELS = [0.9, -0.1, 0.4, 0.4, 0.3], [0.0, 1.0, 1.0, 2.5, 4.0]


def set_to(view: Any, **values: Any) -> str:
    """Return the panel after the reader has set controls."""
    view.select(**values)
    return view.panel.html


def numbers(html: str) -> np.ndarray:
    """The rows of the table, nan where a cell is empty."""
    rows = re.findall(r"<tr><th[^>]*scope=\"row\".*?</tr>", html, flags=re.DOTALL)
    cells = [re.findall(r'<td class="number[^>]*>(.*?)</td>', row) for row in rows]
    return np.array([[float(cell or "nan") for cell in row] for row in cells])


def test_the_distributions_sum_to_one_and_the_pull_is_the_gradient_of_listnet():
    view = TopOne(SENTENCES, STUDENT, TEACHER)
    for temperature in (0.01, 0.05, 0.2):
        shown = numbers(set_to(view, student_temperature=temperature, teacher_temperature=0.1))
        assert shown[:, [1, 3]].sum(axis=0) == pytest.approx([1, 1], abs=3 * 0.0005)  # three numbers of three decimals
        student = torch.tensor([STUDENT], dtype=torch.float64, requires_grad=True)
        teacher = torch.tensor([TEACHER], dtype=torch.float64)
        loss = listnet(student, teacher, student_temperature=temperature, teacher_temperature=0.1)
        loss.backward()
        assert f"ListNet {float(loss.detach()):.3f}" in view.panel.html
        assert shown[:, 4] == pytest.approx(-temperature * student.grad[0, 1:].numpy(), abs=0.0005)
        assert shown[:, 4] == pytest.approx(shown[:, 1] - shown[:, 3], abs=0.0015)


@pytest.mark.parametrize("scale", [1, 20, 100])
def test_the_weights_of_the_comparisons_are_the_gradient_of_cosent(scale: int):
    view = Ordering(COSINES, LABELS, scale=scale)
    weights, pull = view.weights()
    assert np.isnan(weights).sum() == 25 - 9  # 10 pairs of pairs, of which one has equal labels
    assert 0 < np.nansum(weights) <= 1 + 1e-12
    assert pull / scale == pytest.approx(np.nansum(weights, axis=1) - np.nansum(weights, axis=0))
    cosines = torch.tensor(COSINES, dtype=torch.float64, requires_grad=True)
    cosent(cosines, torch.tensor(LABELS), scale=float(scale)).backward()
    assert pull == pytest.approx(-cosines.grad.numpy())


def test_the_larger_lambda_the_more_the_wrong_comparisons_weigh():
    view = Ordering(COSINES, LABELS, scale=1)
    shares = [int(re.search(r"have (\d+)%", set_to(view, scale=scale))[1]) for scale in (1, 5, 20)]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_the_composition_is_that_of_the_loss():
    encoder = Encoder.from_pretrained("world-encoder", device="cpu", precision="fp32")
    sentences = ["the chef chops the onion", "the boat sinks at dawn", "Yes"]
    view = Composition(encoder, sentences)
    left, right = ["the chef", "the boat", "Yes"], ["chops the onion", "sinks at dawn", "Yes"]
    for how in ("avg", "sum", "concat_halves"):
        sides = [encoder.vectors(side) for side in (left, right)]
        cosines = cosine_matrix(encoder.vectors(sentences), compose(sides, how))
        shown = set_to(view, how=how)
        assert numbers(shown) == pytest.approx(cosines.numpy(), abs=0.0006)
        assert f"loss {float(info_nce(cosines, temperature=0.05)):.3f}" in shown
    assert "the chef ‖ chops the onion" in view.panel.html
    view.select(how="avg")
    assert "the ‖ chef ‖ chops ‖ the onion" in set_to(view, parts=4)
    view.select(how="concat_halves")
    assert "use avg or sum" in view.panel.html


def test_a_value_that_is_no_choice_is_refused():
    view = Ordering(COSINES, LABELS, scale=5.0)
    for wrong in (
        lambda: view.select(scale=10),
        lambda: RankPlane().select(size=2),
        lambda: Ordering(COSINES, LABELS, scale=10),
        lambda: RankPlane(size=7),
        lambda: Composition("world-encoder", SENTENCES, how="max"),
        lambda: Composition("world-encoder", []),
    ):
        with pytest.raises(ValueError, match=r"choose one of|at least two"):
            wrong()
    assert view.controls["scale"].value == 5


def test_an_encoder_that_does_not_exist_is_reported_in_the_panel(tmp_path: Path):
    view = Composition(tmp_path / "none", SENTENCES)
    assert "none" in view.panel.html
    assert 'role="alert"' in view._repr_mimebundle_()[0]["text/html"]


def test_between_two_boundaries_the_rank_vector_stays_and_across_one_it_changes():
    view = RankPlane(x=0.2, y=0.8)
    assert view.order() == "a, b, c"
    near = [[0.2, 0.8], [0.22, 0.9], [0.3, 0.7]]
    places = np.array([*near, [0.2, 0.45], [0.9, 0.1]])
    scores = -((places[:, None] - view.corpus[None]) ** 2).sum(axis=2)
    vectors = rank_vectors(torch.tensor(scores)).numpy()
    assert view.similarity(places) == pytest.approx(vectors @ vectors[0])
    assert view.similarity(near) == pytest.approx([1, 1, 1]), "one area, one rank vector"
    assert view.similarity(places[3:]) == pytest.approx([0.5, -1])
    view.select(x=0.5, y=0.36)
    assert view.order().startswith("c, ")


def drawing(html: str) -> str:
    return base64.b64decode(re.search('svg\\+xml;base64,([^"]+)', html)[1]).decode()


def test_every_area_has_its_similarity_and_a_larger_corpus_has_more_areas():
    view = RankPlane()
    few = re.findall(r'text-anchor="middle">([-\d.]+)</text>', drawing(view.panel.html))
    assert set(few) == {"1", "0.5", "-0.5", "-1"}
    assert len(few) == 6, "three sentences have six orders"
    many = re.findall(r'text-anchor="middle">([-\d.]+)</text>', drawing(set_to(view, size=5)))
    assert len(many) > len(few)
    assert drawing(set_to(view, x=0.9, y=0.1)).count("<line") == 10


@pytest.mark.parametrize(
    "view", [lambda: TopOne(SENTENCES, STUDENT, TEACHER), lambda: Ordering(COSINES, LABELS), RankPlane]
)
def test_without_a_kernel_the_static_html_is_shown_and_text_is_escaped(view: Any):
    html = view()._repr_mimebundle_()[0]["text/html"]
    assert "Run the cell to" in html
    assert 'class="number' not in html, "styles are written into the elements"
    assert "<script" not in html
