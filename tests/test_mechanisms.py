"""Interactive equations: the drawing follows the controls."""

import numpy as np
import pandas as pd

from workbench import views

HOSTILE = '<script>alert(1)</script> & "quotes" $1'


def test_a_table_follows_its_controls_and_a_problem_is_shown_in_its_place():
    def draw(scale: float = 0.025, how: str = "sum") -> tuple[str, pd.DataFrame]:
        if how == "none":
            raise ValueError("choose another way")
        return f"{how} of {HOSTILE}", pd.DataFrame([[scale, np.nan]], [HOSTILE], ["a", "b"])

    view = views.Mechanism(draw, scale=(0.005, 0.2, 0.005), how=["avg", "sum", "none"])
    assert [control.value for control in view.controls.values()] == [0.025, "sum"]
    view.controls["scale"].value = 0.1
    for html in (view.panel.html, view._repr_mimebundle_()[0]["text/html"]):
        assert ">0.100</td>" in html
        assert "sum of &lt;script&gt;" in html
        assert "<script" not in html
    view.controls["how"].value = "none"
    assert 'role="alert"' in view.panel.html
    assert "choose another way" in view._repr_mimebundle_()[0]["text/html"]
