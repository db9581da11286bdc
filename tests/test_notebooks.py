"""Every notebook has the agreed form, and runs from top to bottom without a browser."""

import ast
import base64
import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import pandas as pd
import pytest
from forking import python
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from written_runs import SUITE, write_run

from workbench import views
from workbench.config import CONFIGS, CoSENTConfig, SimCSEConfig
from workbench.data import load_pairs, load_sentences
from workbench.execution import _execute_notebook

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
DRAWINGS = FOLDER.parent / "workbench" / "views" / "drawings"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
METHOD_NOTEBOOKS = [path for path in NOTEBOOKS if path.stem.split("_", 1)[1] in CONFIGS]
HEADINGS = [
    *("Parameters", "The idea", "By hand", "Exercises", "Data and settings", "Train"),
    *("Evaluate", "Look at rankings", "What you have seen"),
]


def read(path: Path) -> NotebookNode:
    return nbformat.read(path, as_version=4)


def code(notebook: NotebookNode) -> list[NotebookNode]:
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


@pytest.fixture(params=NOTEBOOKS, ids=names(NOTEBOOKS))
def notebook(request: pytest.FixtureRequest) -> NotebookNode:
    return read(request.param)


def test_the_form_is_valid_and_nothing_is_stored_of_a_run(notebook: NotebookNode):
    nbformat.validate(notebook)
    assert [cell.outputs for cell in code(notebook)] == [[]] * len(code(notebook))
    assert {cell.execution_count for cell in code(notebook)} == {None}
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec.name == "python3"
    assert {key for cell in notebook.cells for key in cell.metadata} <= {"tags", "jupyter"}


def lines_without_imports(cell: NotebookNode) -> int:
    imports = [
        line
        for line in ast.parse(cell.source).body
        if isinstance(line, ast.Import | ast.ImportFrom)
    ]
    written = sum((line.end_lineno or 0) - line.lineno + 1 for line in imports)
    return len(cell.source.splitlines()) - written


def test_cells_are_short_and_functions_few(notebook: NotebookNode):
    # Imports aside, which the formatter writes one per line if there are many.
    assert max(map(lines_without_imports, code(notebook))) <= 15
    # Also: no magic, no shell, which hide failures.
    trees = [ast.parse(cell.source) for cell in code(notebook)]
    functions = [
        node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
    ]
    # The functions of exercises.
    functions = [node for node in functions if not node.name.startswith("my_")]
    assert len(functions) <= 2
    assert not [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def test_a_sentence_stands_before_code(notebook: NotebookNode):
    kinds = [cell.cell_type for cell in notebook.cells]
    assert kinds[0] == "markdown"
    assert kinds[-1] == "markdown"
    assert ("code", "code") not in itertools.pairwise(kinds)
    for place, cell in enumerate(notebook.cells[:-1]):
        if cell.cell_type == "markdown" and notebook.cells[place + 1].cell_type == "code":
            last = cell.source.strip().splitlines()[-1]
            assert not last.startswith("#"), f"only a heading precedes the code after {last!r}"
            assert re.search(r"[.:?!$]\**$", last), f"not a sentence before the code: {last!r}"


def test_it_begins_with_its_claim_and_one_cell_of_parameters(notebook: NotebookNode):
    assert notebook.cells[0].source.startswith("# ")
    assert "**Claim.**" in notebook.cells[0].source
    tagged = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert tagged[0] is code(notebook)[0]
    # papermill recognizes a parameter only if a plain value is assigned to it.
    assert all(
        isinstance(line, ast.Assign) and ast.literal_eval(line.value) is not None
        for line in assigned(tagged)
    )


def test_a_comment_on_a_parameter_is_not_cut_off(notebook: NotebookNode):
    """Limit lines to 96 characters: JupyterLab shows about 100 in a window of 1280 pixels."""
    assert max(len(line) for line in code(notebook)[0].source.splitlines()) <= 96


def test_papermill_called_directly_is_checked_too(notebook: NotebookNode):
    """Check the setup cells: papermill itself only warns of unknown parameters."""
    setup = "\n".join(cell.source for cell in code(notebook)[1:3])
    assert "check_parameters(globals())" in setup
    opens = r"config, run, runs_root = views\.open_run\(\w+Config, profile, seed, overrides, "
    if re.search(opens, setup):
        return  # which returns the folder of runs
    assert ("runs_root = runs_folder(runs_root)" in setup) == (
        "runs_root =" in code(notebook)[0].source
    )


def test_a_method_ends_in_thirty_cells_of_code(notebook: NotebookNode):
    assert len(code(notebook)) <= 30


def names_in(cell: NotebookNode, context: type[ast.expr_context]) -> set[str]:
    """Return the names that the code of a cell reads (ast.Load) or sets (ast.Store)."""
    nodes = ast.walk(ast.parse(cell.source))
    return {node.id for node in nodes if isinstance(node, ast.Name) and type(node.ctx) is context}


def is_lesson(cell: NotebookNode) -> bool:
    return "skip-execution" in cell.metadata.get("tags", [])


def test_no_cell_needs_a_lesson_and_a_sentence_says_that_it_is_skipped(notebook: NotebookNode):
    lessons: set[str] = set()
    others: set[str] = set()
    for place, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if is_lesson(cell):
            lessons |= names_in(cell, ast.Store)
            assert "skipped" in notebook.cells[place - 1].source
        else:
            others |= names_in(cell, ast.Store)
            assert not (lessons - others) & names_in(cell, ast.Load)


@pytest.mark.parametrize("path", METHOD_NOTEBOOKS, ids=names(METHOD_NOTEBOOKS))
def test_a_batch_trains_one_encoder_and_those_that_it_learns_from(path: Path):
    cells = [cell.source for cell in code(read(path)) if not is_lesson(cell)]
    source = "\n".join(cells)
    assert len(re.findall(r"\bfit\(method", source)) == 1
    assert len(re.findall(r"\bfit\(", source)) == 1
    assert "optimizer.step" not in source
    # E1 of these is the run that the method learns from.
    others = 1 if path.stem in ("14_rankencoder", "16_mixed") else 0
    assert len(re.findall(r"\bworkbench\.run\(", source)) == others


def assigned(cells: list[NotebookNode]) -> list[Any]:
    return [line for cell in cells for line in ast.parse(cell.source).body]


@pytest.mark.parametrize("path", METHOD_NOTEBOOKS, ids=names(METHOD_NOTEBOOKS))
def test_a_method_has_the_same_headings_and_parameters_as_every_other(path: Path):
    cells = read(path).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert re.findall(r"^## (.+)$", text, flags=re.MULTILINE) == HEADINGS
    parameters = [str(line.targets[0].id) for line in assigned([code(read(path))[0]])]
    assert parameters == ["profile", "seed", "overrides", "runs_root"]
    values = [ast.unparse(line) for line in assigned([code(read(path))[0]])]
    assert values == ["profile = 'demo'", "seed = 0", "overrides = {}", "runs_root = '../runs'"]
    source = "\n".join(cell.source for cell in code(read(path)))
    assert "assert_close(" in source
    calls = [
        "guess = None",
        "views.drawing(",
        "views.cosine_heatmap(",
        "teaching.compare_guess(guess, history)",
    ]
    assert [line for line in [*calls, "teaching.recap(run)"] if line not in source] == []
    assert 2 <= source.count("teaching.check_answer(") <= 4
    for line in ("**You learn** ", "**You need** ", "**It takes** "):
        assert line in cells[0].source


@pytest.mark.parametrize("path", METHOD_NOTEBOOKS, ids=names(METHOD_NOTEBOOKS))
def test_the_idea_is_drawn_before_its_equation(path: Path):
    cells = read(path).cells
    drawn = next(place for place, cell in enumerate(cells) if "views.drawing(" in cell.source)
    equations = [
        place
        for place, cell in enumerate(cells)
        if cell.cell_type == "markdown" and "$$" in cell.source
    ]
    assert drawn < min(equations)


@pytest.mark.parametrize("path", sorted(DRAWINGS.glob("*.svg")), ids=lambda path: path.stem)
def test_a_drawing_is_whole_has_a_text_and_its_own_background(path: Path):
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    title, *shapes = [part for part in root if not part.tag.endswith("defs")]
    assert title.tag.endswith("title")
    assert shapes[0].tag.endswith("rect"), (
        "the text is dark, so the background must be light in every theme"
    )
    assert (shapes[0].get("width"), shapes[0].get("height")) == (
        root.get("width"),
        root.get("height"),
    )
    shown = views.drawing(path.stem).data
    assert base64.b64decode(shown.split("base64,")[1].split('"')[0]) == path.read_bytes()
    assert 'alt="' in shown


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., NotebookNode]:
    """Return a function (notebook, folder, parameters) -> executed notebook, without torch."""
    monkeypatch.setenv("JUPYTER_PATH", str(Path(python("looks")).parent))

    def run(path: Path, folder: Path, parameters: dict[str, Any]) -> NotebookNode:
        content = read(path)
        content.cells.append(
            new_code_cell("import sys\nassert 'torch' not in sys.modules, 'torch was loaded'")
        )
        nbformat.write(content, folder / "in.ipynb")
        _execute_notebook(folder / "in.ipynb", folder / "out.ipynb", parameters)
        return read(folder / "out.ipynb")

    return run


def output(notebook: NotebookNode, kind: str) -> list[Any]:
    outputs = [item.get("data", {}) for cell in code(notebook) for item in cell.outputs]
    return [data[kind] for data in outputs if kind in data]


@pytest.mark.slow
def test_two_methods_are_compared_without_torch(
    tmp_path: Path, executed: Callable[..., NotebookNode]
):
    for seed in (0, 1):
        write_run(tmp_path / "runs", SimCSEConfig.from_parameters("demo", seed, {}), 2.0)
    write_run(tmp_path / "runs", CoSENTConfig.from_parameters("demo", 0, {}), 1.0)
    parameters = {
        "runs_root": str(tmp_path / "runs"),
        "suite": SUITE,
        "samples": 50,
        "baseline": "simcse",
    }
    done = executed(FOLDER / "20_compare.ipynb", tmp_path, parameters)
    tables = "\n".join(output(done, "text/html"))
    assert re.search(r"\d\d\.\d\d \(\d+\.\d\d\)", tables)
    assert "cosent is better than simcse on world-dev: +" in tables
    figures = output(done, "application/vnd.plotly.v1+json")
    # A dot of each run; then one of each method.
    assert [len(figure["data"]) for figure in figures] == [3, 2]
    assert len(json.dumps(done)) < 200_000


@pytest.mark.slow
def test_a_comparison_keeps_a_sweep_beside_a_later_run_and_takes_labels(
    tmp_path: Path, executed: Callable[..., NotebookNode]
):
    for seed in (0, 1):
        for rate in (2e-3, 4e-3):
            config = SimCSEConfig.from_parameters("demo", seed, {"learning_rate": rate})
            write_run(tmp_path / "runs", config, 2.0).record(ended=f"2030-01-01T0{1000 * rate:.0f}")
    later = SimCSEConfig.from_parameters("demo", 0, {"max_steps": 3})
    write_run(tmp_path / "runs", later, 3.0).record(ended="2030-01-02")
    parameters = {"runs_root": str(tmp_path / "runs"), "suite": SUITE, "samples": 20}
    seeds = {}
    for labels in ([], ["simcse"], ["simcse (learning_rate=0.002)"]):
        given = {"labels": labels} if labels else {}
        done = executed(FOLDER / "20_compare.ipynb", tmp_path, parameters | given)
        figure = output(done, "application/vnd.plotly.v1+json")[0]
        seeds[str(labels)] = len(figure["data"])
    # The newest setting, one seed, and the newest of the sweep, two; all five; two.
    assert list(seeds.values()) == [3, 5, 2]


@pytest.mark.slow
def test_comparing_nothing_says_how_to_make_a_run(
    tmp_path: Path, executed: Callable[..., NotebookNode]
):
    done = executed(FOLDER / "20_compare.ipynb", tmp_path, {"runs_root": str(tmp_path)})
    texts = [
        item.text for cell in code(done) for item in cell.outputs if item.output_type == "stream"
    ]
    assert any("workbench run simcse --seed 0" in text for text in texts)


@pytest.mark.slow
def test_rankings_of_baselines_are_shown_without_runs(
    tmp_path: Path, executed: Callable[..., NotebookNode]
):
    parameters = {"runs_root": str(tmp_path / "runs"), "suite": SUITE}
    picked, every_pair = output(
        executed(FOLDER / "23_pairs.ipynb", tmp_path, parameters), "text/html"
    )
    assert "0 of 0 runs" in picked
    assert "The first of 1750 pairs" in every_pair.replace(",", "")
    done = executed(FOLDER / "21_rankings.ipynb", tmp_path, parameters)
    assert len(output(done, "application/vnd.jupyter.widget-view+json")) == 2
    _, html = output(done, "text/html")
    html = re.sub("</?span[^>]*>", "", html)
    assert re.findall(r"<th[^>]*>([^<]*)</th></tr></thead>", html)[0] == "tf-idf"
    assert ">word overlap</th>" in html
    assert len(json.dumps(done)) < 800_000


@pytest.fixture
def without_lists(tmp_path: Path) -> Path:
    """Return a file of pairs in which no sentence is in four of them."""
    lines = [
        f"the {word} runs\ta {word} walks\t{number}"
        for number, word in enumerate(["dog", "cat", "fox", "bee"])
    ]
    (tmp_path / "mine.tsv").write_text("\n".join(["sentence1\tsentence2\tscore", *lines]))
    return tmp_path / "mine.tsv"


def test_the_tour_of_a_file_without_lists_goes_on(
    without_lists: Path, capsys: pytest.CaptureFixture[str]
):
    names: dict[str, Any] = {}
    for cell in code(read(FOLDER / "00_tour.ipynb")):
        exec(cell.source, names)
        if "encoders =" in cell.source:
            names |= {"encoders": {"start": "world-encoder"}, "suite": str(without_lists)}
        if "RankingExplorer(" in cell.source:
            break
    assert "mine.tsv occurs in four pairs" in capsys.readouterr().out
    assert "RankingExplorer(" in cell.source


def test_a_set_in_which_no_sentence_has_four_partners_is_shown_by_its_pairs(
    tmp_path: Path, without_lists: Path, capsys: pytest.CaptureFixture[str]
):
    given = {"runs_root": str(tmp_path / "runs"), "suite": str(without_lists)}
    names: dict[str, Any] = {}
    for cell in (*code(read(FOLDER / "21_rankings.ipynb")), *code(read(FOLDER / "23_pairs.ipynb"))):
        exec(cell.source, names)
        names |= {
            name: value
            for name, value in given.items()
            if "runs_root =" in cell.source.split("\n")[0]
        }
    assert "mine.tsv occurs in four pairs" in capsys.readouterr().out
    names["every_pair"].to_html(tmp_path / "pairs.html")
    assert "word overlap" in (tmp_path / "pairs.html").read_text(encoding="utf-8")


def test_the_columns_of_an_own_file_are_parameters_of_the_notebooks_that_read_one(tmp_path: Path):
    rows = {"left": ["a cat", "a dog"], "right": ["cats", "dogs"], "points": [1, 2], "year": [3, 4]}
    file = tmp_path / "mine.csv"
    pd.DataFrame(rows).to_csv(file, index=False)
    sides = {"sentence1": "left", "sentence2": "right", "score": "points"}
    given: dict[str, Any] = {"suite": str(file), "columns": sides}
    given |= {"corpus": str(file), "corpus_size": 2}
    given["corpus_columns"] = {"sentence": "right"}
    names_of = {"load_pairs": load_pairs, "load_sentences": load_sentences}
    loaded: list[Any] = []
    for name in ("00_tour", "15_rank_closed_form"):
        source = "\n".join(cell.source for cell in code(read(FOLDER / f"{name}.ipynb")))
        for line in re.findall(r"= (load_\w+\(.+?\))", source):
            loaded.append(eval(line, names_of | given))
    tour, corpus, pairs = loaded
    assert tour.gold.tolist() == pairs.gold.tolist() == [1, 2]
    assert corpus.sentences == ["cats", "dogs"]


def test_a_notebook_that_another_names_is_a_link_to_it(notebook: NotebookNode):
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    for name in names(NOTEBOOKS):
        assert text.count(f"`{name}`") == text.count(f"[`{name}`]({name}.ipynb)"), name


@pytest.mark.parametrize("path", NOTEBOOKS, ids=names(NOTEBOOKS))
def test_the_gallery_has_a_small_executed_copy_with_images(path: Path):
    """Figures are images there, because GitHub draws neither plotly's JSON nor widgets."""
    copy = FOLDER.parent / "docs" / "gallery" / path.name
    assert copy.stat().st_size < 1_200_000
    outputs = [item for cell in code(read(copy)) for item in cell.outputs]
    assert {item.output_type for item in outputs} <= {"stream", "display_data"}
    kinds = {kind for item in outputs if item.output_type == "display_data" for kind in item.data}
    # The tables of the papers are all that their notebook shows.
    assert ("image/png" in kinds) == (path.stem != "22_paper_tables")
    assert kinds <= {"image/png", "image/svg+xml", "text/html", "text/markdown", "text/plain"}
    images = [item for item in outputs if "image/png" in item.get("data", {})]
    # For who cannot see them.
    assert all(item.metadata["image/png"]["alt"] for item in images)
    assert [cell.source for cell in code(read(copy))] == [
        cell.source for cell in code(read(path))
    ], "make gallery"
    for cell in read(copy).cells:
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", cell.source):
            assert (copy.parent / target).exists(), target
