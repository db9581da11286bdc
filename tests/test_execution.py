"""Runs of notebooks refuse early, finish with metrics.json, and are reused."""

import gzip
import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from written_runs import after_a_timeout, hold_lock, write_run

from workbench import METHODS, Run, execution, sweep
from workbench.config import CONFIGS, RankEncoderConfig, SimCSEConfig
from workbench.errors import BusyError, DataError, EncoderError, RunError, SettingError
from workbench.execution import _execute_notebook, notebook_of, run_notebook
from workbench.runs import list_runs
from workbench.views import check_parameters, export_html

KERNEL = {
    "kernelspec": {"name": "python3", "display_name": "Python 3"},
    "language_info": {"name": "python"},
}
PARAMETERS = "x = 1\nlabel = 'a'"


def notebook(folder: Path, *cells: str, parameters: str = PARAMETERS) -> Path:
    first = [
        new_markdown_cell("# A title"),
        new_code_cell(parameters, metadata={"tags": ["parameters"]}),
    ]
    content = new_notebook(cells=[*first, *map(new_code_cell, cells)], metadata=KERNEL)
    nbformat.write(content, folder / "small.ipynb")
    return folder / "small.ipynb"


def test_every_method_has_a_notebook_with_the_same_parameters():
    import papermill

    defaults = {"profile": '"demo"', "seed": "0", "overrides": "{}", "runs_root": '"../runs"'}
    for method in CONFIGS:
        inspected = papermill.inspect_notebook(str(notebook_of(method)))
        assert {name: item["default"] for name, item in inspected.items()} == defaults


@pytest.mark.parametrize(
    ("method", "overrides", "words"),
    [
        ("simcse", {"dev": "world-dve"}, "world-dev"),
        ("cosent", {"train": "world"}, "train: world holds sentences; cosent needs pairs"),
        ("cosent", {"train": "nli.tsv"}, "train: .*nli.tsv holds triplets; cosent needs pairs"),
        (
            "compcse",
            {"suites": ["world-test", "world"]},
            "world holds sentences; .* pairs or transfer tasks there",
        ),
        (
            "rankencoder",
            {"corpus": "world-train"},
            "corpus: world-train holds pairs; rankencoder needs sentences",
        ),
        ("simcse", {"train": "cut.txt.gz"}, "cut.txt.gz"),
        (
            "simcse",
            {"encoder": "english-encoder"},
            "english-encoder say 'mean'.* set pooling=mean .* or pooling=cls",
        ),
        (
            "cosent",
            {"train": "nli.tsv", "objective": "triplet", "encoder": "no/such/folder"},
            "'no/such/folder' is neither",
        ),
        ("simcse", {"revisions": {"someone/something": "main"}}, "someone/something"),
        ("simcse", {"revisions": {"world-encoder": "main"}}, "world-encoder is on this machine"),
        ("simcse", {"encoder": "st:world-encoder"}, "a teacher, but not trained"),
        ("simcse", {"dev": "mine.csv+world-dev"}, "several sets are of the catalogue"),
    ],
)
def test_what_a_method_cannot_use_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, overrides: dict, words: str
):
    monkeypatch.chdir(tmp_path)
    Path("nli.tsv").write_text("sent0\tsent1\thard_neg\na\tb\tc\n")
    Path("cut.txt.gz").write_bytes(gzip.compress(b"one sentence\n" * 9)[:-9])
    with pytest.raises((SettingError, DataError, EncoderError), match=words):
        run_notebook(method, overrides=overrides, runs_root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_missing_encoder_is_refused_without_a_kernel_and_without_torch(tmp_path: Path):
    code = (
        "import sys\nfrom workbench.errors import EncoderError\nfrom workbench.execution "
        "import run_notebook\n"
    )
    missing = {
        "rankcse": {"teachers": ["world-teacher", "no-such-encoder"]},
        "rankencoder": {"base": "no-such-encoder"},
    }
    for method, overrides in missing.items():
        code += (
            f"try:\n    run_notebook({method!r}, overrides={overrides!r}, "
            f"runs_root={str(tmp_path / 'runs')!r})\n"
        )
        code += (
            "except EncoderError as refusal:\n    print(refusal)\nassert 'torch' not in "
            "sys.modules\n"
        )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    start = "'no-such-encoder' is no local folder"
    assert [line.startswith(start) for line in done.stdout.splitlines()] == [True] * 2
    assert not (tmp_path / "runs").exists()


def test_an_interrupted_execution_leaves_the_earlier_notebook_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(_notebook: str, running: str, *_: object, **__: object) -> None:
        Path(running).write_text("a part")
        raise SystemExit(130)

    output = tmp_path / "notebook.ipynb"
    output.write_text("whole")
    monkeypatch.setattr("papermill.execute_notebook", interrupt)
    with pytest.raises(SystemExit):
        _execute_notebook(tmp_path / "any.ipynb", output, {})
    assert output.read_text() == "whole"


def test_a_name_that_papermill_injects_and_the_notebook_does_not_declare_is_refused():
    declared = 'profile = "demo"\nseed = 0  # every random generator derives from it'
    check_parameters({"In": ["", declared]})
    check_parameters({"In": ["", declared, '# Parameters\nseed = 3\nprofile = "paper"\n', "x = 1"]})
    check_parameters({})  # no notebook
    path = '# Parameters\nPAPERMILL_INPUT_PATH = "a.ipynb"\nseed = 3\n'  # by --inject-paths
    check_parameters({"In": ["", declared, path]})
    # Mended.
    check_parameters(
        {"In": ["", declared, "# Parameters\nsead = 3\n", "", "# Parameters\nseed = 3\n"]}
    )
    with pytest.raises(
        SettingError, match=r"no parameter 'sead' in this notebook; did you mean 'seed'\?"
    ):
        check_parameters({"In": ["", declared, "# Parameters\nseed = 1\nsead = 3\n"]})


def test_a_notebook_that_ends_before_its_evaluation_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(execution, "notebook_of", lambda _: notebook(tmp_path, "print(1)"))
    with pytest.raises(RunError, match="ended before its evaluation; restore its cells"):
        run_notebook("simcse", runs_root=tmp_path / "runs")
    (row,) = list_runs(tmp_path / "runs").to_dict("records")
    assert row["status"] == "failed"


def test_a_finished_run_whose_notebook_failed_is_executed_again_and_then_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    failures = [RunError("a cell behind the evaluation failed")]

    def kernel(notebook: Path, output: Path, parameters: dict) -> None:
        assert parameters == {
            "profile": "demo",
            "seed": 3,
            "overrides": {},
            "runs_root": str(tmp_path),
        }
        (output.parent / "metrics.json").write_text("{}")
        if failures:
            output.with_suffix(".failed.ipynb").write_text("{}")
            raise failures.pop()
        output.write_text("{}")

    monkeypatch.setattr("workbench.execution._execute_notebook", kernel)
    caplog.set_level("INFO", "workbench")
    with pytest.raises(RunError, match="a cell behind"):
        run_notebook("simcse", seed=3, runs_root=tmp_path)
    (path,) = tmp_path.glob("simcse/*")
    assert "a cell behind" in Run(path).facts()["failure"]
    assert run_notebook("simcse", seed=3, runs_root=tmp_path).finished
    assert "used as it is" not in caplog.text
    assert Run(path).facts()["failure"] is None
    run_notebook("simcse", seed=3, runs_root=tmp_path)
    assert "used as it is" in caplog.text


def test_of_two_that_execute_the_notebook_of_a_run_one_is_refused_and_a_cell_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = write_run(tmp_path, SimCSEConfig.from_parameters("demo"), 1.0).path
    notebook = path / "notebook.ipynb"
    monkeypatch.setattr("workbench.execution._execute_notebook", lambda *_: 1 / 0)
    with hold_lock(path, "notebook.ipynb", ".notebook.lock") as other:
        with pytest.raises(BusyError, match=r"another process is working on .*process \d+ on"):
            run_notebook("simcse", runs_root=tmp_path)
        monkeypatch.setenv("WORKBENCH_CELL", "")
        after_a_timeout(monkeypatch, lambda: (notebook.write_text("whole"), other.communicate()))
        assert run_notebook("simcse", runs_root=tmp_path).path == path
    assert notebook.read_text() == "whole"
    assert Run(path).facts().get("failure") is None
    notebook.unlink()
    with pytest.raises(ZeroDivisionError):  # it is free again
        run_notebook("simcse", runs_root=tmp_path)


def test_a_run_in_another_folder_is_learned_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shared = tmp_path / "shared"
    config = RankEncoderConfig.from_parameters("demo", 0, {"base_root": str(shared)})
    (needed,) = config.runs_needed
    write_run(shared, needed, 0.5)
    opened = []

    def stop(config: RankEncoderConfig, root: Path) -> None:
        opened.append(config.base_root)
        raise KeyboardInterrupt

    monkeypatch.setattr("workbench.execution.check_settings", lambda _: None)
    monkeypatch.setattr(Run, "open", stop)
    with pytest.raises(KeyboardInterrupt):
        execution.run(config, tmp_path / "runs")
    assert opened == [str(shared)]
    assert list_runs(tmp_path / "runs").empty


def test_a_run_that_another_process_takes_meanwhile_keeps_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    others = []

    def kernel(notebook: Path, output: Path, parameters: dict) -> None:
        others.append(hold_lock(output.parent))
        Run.open(SimCSEConfig.from_parameters("demo"), tmp_path)

    monkeypatch.setattr("workbench.execution._execute_notebook", kernel)
    with pytest.raises(RunError, match="another process is working on"):
        run_notebook("simcse", runs_root=tmp_path)
    (path,) = tmp_path.glob("simcse/*")
    assert "failure" not in Run(path).facts()
    with pytest.raises(RunError, match="another process is working on"):  # before a kernel starts
        run_notebook("simcse", runs_root=tmp_path)
    assert len(others) == 1

    monkeypatch.setattr(
        "workbench.execution._execute_notebook", lambda _, output, __: output.write_text("{}")
    )
    (path / "metrics.json").write_text("{}")  # of a notebook that is still open
    assert run_notebook("simcse", runs_root=tmp_path).finished
    assert (path / "notebook.ipynb").is_file()
    others[0].communicate()


@pytest.mark.slow
def test_figures_are_small_in_the_notebook_and_whole_in_the_page_and_unknown_parameters_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in ("TQDM_DISABLE", "PLOTLY_RENDERER"):
        monkeypatch.delenv(name, raising=False)
    figure = "import plotly.graph_objects as go\ngo.Figure(go.Scatter(y=[1, 3, x]))"
    checks = (
        "import os\nfrom workbench import check_parameters\nassert "
        "os.environ['TQDM_DISABLE'] == '1'"
    )
    file = notebook(tmp_path, f"{checks}\ncheck_parameters(globals())", figure, figure)
    _execute_notebook(file, tmp_path / "out.ipynb", {"x": 7})
    assert "TQDM_DISABLE" not in os.environ
    assert (tmp_path / "out.ipynb").stat().st_size < 100_000
    page = export_html(tmp_path / "out.ipynb").read_text(encoding="utf-8")
    assert page.count("Plotly.newPlot(") >= 2
    assert page.count("DecompressionStream") == 1, "the drawing script is there once"
    assert len(page) < 2_500_000
    with pytest.raises(RunError, match=r"no parameter 'xx' in this notebook; did you mean 'x'\?"):
        _execute_notebook(file, tmp_path / "out.ipynb", {"xx": 7})


def test_braces_in_a_path_are_no_parameters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import papermill
    from papermill.parameterize import parameterize_path  # what papermill makes of both paths

    def execute(source: str, running: str, values: dict, **_: object) -> None:
        assert Path(parameterize_path(source, values)).is_file()
        Path(parameterize_path(running, values)).write_text("{}")

    monkeypatch.setattr(papermill, "execute_notebook", execute)
    folder = tmp_path / "runs{seed}" / "b{a}"
    folder.mkdir(parents=True)
    _execute_notebook(notebook(folder), folder / "out.ipynb", {"seed": 7})
    assert (folder / "out.ipynb").is_file()


def test_a_kernel_that_never_started_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import papermill
    from nbclient.exceptions import DeadKernelError

    problems = [RuntimeError("Kernel died before replying to kernel_info"), None]
    starts = []

    def execute(_: str, running: str, *__: object, **___: object) -> None:
        starts.append(running)
        if problem := problems.pop(0):
            raise problem
        Path(running).write_text("{}")

    monkeypatch.setattr(papermill, "execute_notebook", execute)
    _execute_notebook(notebook(tmp_path), tmp_path / "out.ipynb", {})
    assert (tmp_path / "out.ipynb").is_file()
    assert len(starts) == 2
    # One that died with its cells half done is not.
    problems[:] = [DeadKernelError("Kernel died"), None]
    with pytest.raises(RunError, match="Kernel died"):
        _execute_notebook(notebook(tmp_path), tmp_path / "out.ipynb", {})
    assert len(starts) == 3


def test_dollars_are_equations_where_jupyterlab_has_them(tmp_path: Path):
    texts = [
        "A loss $x^2$, a price of \\$5 and \\$6, and `$HOME` of `$USER`.",
        "```\necho $A $B\n```",
        "One $ here.\n\nAnother $ there.",
        "- A list\n\n  ~~~\n  echo $C $D\n\n  echo\n  ~~~",
        "A mark ` here.\n\nThe loss $y^2$.\n\nAnother ` there.",
        "$c = \\$5$ and $z$",
        "A mistake: $x^2^3$.",
        "$$\n\\frac{a}{b}\n$$",
    ]
    content = new_notebook(cells=[new_markdown_cell(text) for text in texts], metadata=KERNEL)
    nbformat.write(content, tmp_path / "prices.ipynb")
    page = export_html(tmp_path / "prices.ipynb").read_text(encoding="utf-8")
    assert page.count("<math") == 5
    for kept in (
        "$HOME",
        "$USER",
        "echo $A $B",
        "echo $C $D",
        "One $ here",
        "Another $ there",
        "$x^2^3$",
    ):
        assert kept in page


def test_no_file_of_the_user_is_replaced_by_an_executed_lesson(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("workbench.execution._execute_notebook", None)  # not called
    lesson = notebook(tmp_path, "1")
    for name in (".executed.ipynb", ".html"):
        own = lesson.with_suffix(name)
        own.write_text("mine")
        assert execution.execute_lesson(lesson) == f"kept: {own}"
        assert own.read_text() == "mine"


@pytest.mark.slow
def test_a_lesson_is_skipped_in_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import papermill

    file = notebook(tmp_path, "1 / 0", "print('after the lesson')")
    content = nbformat.read(file, 4)
    content.cells[2].metadata["tags"] = ["skip-execution"]
    nbformat.write(content, file)
    _execute_notebook(file, tmp_path / "out.ipynb", {"x": 7})
    *_, lesson, after = nbformat.read(tmp_path / "out.ipynb", 4).cells
    assert (lesson.source, lesson.outputs) == ("1 / 0", [])
    assert after.outputs[0].text == "after the lesson\n"
    monkeypatch.setattr("workbench.execution._LESSON", "")  # as the gallery of the documentation
    with pytest.raises(RunError, match=r"ZeroDivisionError.*\n.*out\.failed\.ipynb"):
        _execute_notebook(file, tmp_path / "out.ipynb", {"x": 7})
    assert (tmp_path / "out.failed.ipynb").is_file()
    *_, kept, _ = nbformat.read(tmp_path / "out.ipynb", 4).cells
    assert kept.outputs == [], "the notebook of the execution before"
    # papermill itself knows the tag.
    papermill.execute_notebook(str(file), str(tmp_path / "direct.ipynb"), progress_bar=False)


def test_waiting_threads_of_openmp_sleep_after_a_moment():
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    }
    code = "import workbench, os\nprint(os.environ['GOMP_SPINCOUNT'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "5000\n"


@pytest.mark.parametrize(
    ("default", "text", "value"),
    [
        ("False  # a remark", "true", True),
        ("True", "false", False),
        ("0", "7", 7),
        ("[]", '["a,b", "c"]', ["a,b", "c"]),
        ("[]", "[a, 'b']", ["a", "b"]),
        ("[]", "simcse", ["simcse"]),
        ("{}", '{"max_steps": 2}', {"max_steps": 2}),
        ('""', "false", "false"),
    ],
)
def test_a_parameter_that_papermill_leaves_as_text_is_read_as_its_default(
    default: str, text: str, value: object
):
    namespace = {
        "In": ["", f"given = {default}", f"# Parameters\ngiven = {text!r}\n"],
        "given": text,
    }
    check_parameters(namespace)
    assert namespace["given"] == value
    assert type(namespace["given"]) is type(value)


@pytest.mark.parametrize(
    ("default", "wrong"),
    [
        ("False", "maybe"),
        ("0", "many"),
        ("{}", "max_steps=2"),
        ("{}", "[1]"),
        ("{}", "{max_steps: 2}"),
        ('""', 7),
    ],
)
def test_a_parameter_of_another_kind_is_refused_with_what_papermill_needs(
    default: str, wrong: object
):
    namespace = {
        "In": ["", f"given = {default}", f"# Parameters\ngiven = {wrong!r}\n"],
        "given": wrong,
    }
    with pytest.raises(
        SettingError, match=r"given=.* cannot be read as \w+; .* -y 'given: \.\.\.'"
    ):
        check_parameters(namespace)


def test_settings_of_a_notebook_may_be_the_text_of_a_json_object():
    assert SimCSEConfig.from_parameters("demo", 0, '{"max_steps": 2}').max_steps == 2
    for wrong, words in (
        ("max_steps=2", "-y 'overrides: "),
        ("", "-y 'overrides: "),
        ("null", "-y 'overrides: "),
        ([1], "-y 'overrides: "),
        ({1: 2}, "-y 'overrides: "),
        ('{"lr": 1, "lr": 2}', "lr is given twice"),
        ('{"lr": 1e-3, "learning_rate": 1e-3}', "learning_rate is given twice"),
        ('{"max_steps": true}', "max_steps: .*valid integer.*got 'True'"),
    ):
        with pytest.raises(SettingError, match=words):
            SimCSEConfig.from_parameters("demo", 0, wrong)  # type: ignore[arg-type]


def test_a_method_without_a_notebook_is_refused_by_a_run_and_a_sweep_and_works_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for method in METHODS:
        assert notebook_of(method).is_file()
    monkeypatch.setattr("workbench.execution.project_path", lambda _: tmp_path)
    runs = tmp_path / "runs"
    for start in (run_notebook, sweep):
        with pytest.raises(SettingError, match=r"simcse has 0 notebooks .*--no-notebook"):
            start("simcse", runs_root=runs)
    assert not runs.exists()
    assert len(sweep("simcse", runs_root=runs, dry=True, notebook=False).cells) == 1
