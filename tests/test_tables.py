"""The small tables of notebooks: content and display."""

from pathlib import Path

import pandas as pd
import pytest
from written_runs import SUITE, write_run

from workbench.config import SimCSEConfig
from workbench.evaluation import Report
from workbench.views import dev_table, score_table, show_tables
from workbench.views.notebooks import table_html


def test_text_is_at_the_left_and_neither_markup_nor_mathematics():
    text = "$1 to $20 <i>x</i>"
    table = pd.DataFrame({"<b>sentence</b>": [text, None], "gold": [0.5, 1.5]}, index=["<u>a", "b"])
    html = table_html(table)
    assert 'class="dataframe mathjax_ignore"' in html
    assert (
        '<div dir="auto" style="text-align:left;white-space:nowrap">$1 to $20 '
        "&lt;i&gt;x&lt;/i&gt;</div>" in html
    )
    assert "<td>0.5</td>" in html
    for absent in ("None", "<b>", "<i>", "<u>"):
        assert absent not in html
    command = "workbench run simcse --set suites=mr,cr,subj,mpqa,sst2,trec,mrpc"
    wide = table_html(pd.DataFrame({"command": [command]}, index=["RankCSE & <u>"]))
    assert f'min-width:9em;overflow-wrap:anywhere">{command}</div>' in wide, (
        "a text without spaces does not wrap"
    )
    assert 'white-space:nowrap">RankCSE &amp; &lt;u&gt;</div></th>' in wide
    levels = pd.MultiIndex.from_tuples([("x", 1)], names=["<b>level", "n"])
    axes = pd.DataFrame([[1.0]], levels, pd.Index(["a"], name="<i>axis"))
    for absent in ("<b>", "<i>"):
        assert absent not in table_html(axes)


def test_an_index_with_a_name_is_a_column_and_of_a_long_table_the_two_ends_are_shown():
    table = pd.DataFrame({"kind": ["a", "a", "b"], "gold": [1, 2, 3]})
    columns = pd.CategoricalIndex(["low", "high"], name="part")
    for shown in (
        table.set_index("kind", drop=False),
        pd.DataFrame([[1, 2]], pd.Index(["a"], name="kind"), columns),
    ):
        html = table_html(shown)
        assert "kind</div></th>" in html
        assert "<th></th>" not in html, "its name is no row"
    assert table_html(table.groupby("kind").agg(["min", "max"])), "columns of two levels too"
    html = table_html(pd.DataFrame({"text": [f"row {number}." for number in range(5000)]}))
    assert [name in html for name in ("row 0.", "row 4999.", "5000 rows", "row 2500.")] == [
        True,
        True,
        True,
        False,
    ]


def test_a_notebook_shows_every_table_so(monkeypatch: pytest.MonkeyPatch):
    from IPython.core.interactiveshell import InteractiveShell

    show_tables()  # outside a notebook there is no formatter to change
    shell = InteractiveShell()
    monkeypatch.setattr("workbench.views.notebooks.get_ipython", lambda: shell)
    show_tables()
    shown, _ = shell.display_formatter.format(pd.DataFrame({"text": ["word " * 40]}))
    assert "word " * 40 in shown["text/html"]
    assert "mathjax_ignore" in shown["text/html"]


def test_reports_and_runs_are_rows_of_one_table(tmp_path: Path):
    run = write_run(tmp_path, SimCSEConfig.from_parameters("demo", 0, {}), 1.0)
    before = Report(run.metrics("before"), run.scores("before"), run.rankings("before"))
    found = score_table({"before": before, "SimCSE": run})
    assert found.index.tolist() == ["before", "SimCSE"]
    assert found["suite"].tolist() == [SUITE, SUITE]
    assert found["Spearman"].tolist() == [
        round(100 * metrics[SUITE]["spearman"], 2) for metrics in (before.metrics, run.metrics())
    ]


def test_dev_is_shown_times_100_at_the_steps_that_measured_it():
    nan = float("nan")
    history = pd.DataFrame(
        {"step": [0, 5, 10], "loss": [nan, 2.0, 1.0], "dev_spearman": [0.5, nan, 0.25]}
    )
    found = dev_table(history, "observed_share")
    assert found["Spearman on dev x 100"].to_dict() == {0: 50, 10: 25}
    assert found.columns.tolist() == ["loss", "observed_share", "Spearman on dev x 100", "seconds"]


def test_what_is_missing_is_an_empty_cell_in_columns_of_every_kind():
    table = pd.DataFrame(
        {
            "text": pd.Series(["x", None], dtype=object),
            "name": pd.Series(["y", None]),
            "number": [1.0, None],
            "time": pd.to_datetime(["2020-01-01", None]),
        }
    )
    html = table_html(table)
    assert "None" not in html
    assert "na" not in html.lower().partition("<tbody>")[2]
