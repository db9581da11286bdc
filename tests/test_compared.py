"""One table of all labels on all suites: marked where a difference is more than chance, kept, exported, never mixed."""

import io
import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from written_runs import SUITE, write_run

from workbench import look
from workbench.config import CoSENTConfig, SimCSEConfig
from workbench.runs import Run
from workbench.views import compared, comparison


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder, SimCSEConfig.from_parameters("demo", seed, {}), 1.0)
        write_run(folder, SimCSEConfig.from_parameters("demo", seed, {"temperature": 0.2}), 3.0)
        write_run(folder, CoSENTConfig.from_parameters("demo", seed, {}), 0.3)
    return folder


@pytest.fixture
def root(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "runs"))


def test_what_is_better_in_every_seed_is_marked_and_the_baseline_is_not(root: Path):
    found = look.compare(root, samples=200)
    assert (found.baseline, found.values.columns.tolist()) == ("simcse", [SUITE])
    assert dict(zip(found.tests["label"], found.tests["verdict"], strict=True)) == {
        "cosent": "better",
        "simcse (temperature=0.2)": "worse",
    }
    assert found.tests["adjusted"].tolist() == pytest.approx([2 / 201, 2 / 201])
    cells = found.cells()[SUITE]
    assert (cells["cosent"][-1], cells["simcse (temperature=0.2)"][-1], "±" in cells["simcse"]) == ("↑", "↓", True)
    assert set(look.compare(root, samples=5).tests["verdict"]) == {""}, "five permutations can say nothing"


def test_the_table_is_exported_for_papers_and_pages(root: Path):
    found = look.compare(root, samples=50)
    assert found.to_csv().splitlines()[0] == "label,suite,value,difference,p_value,adjusted,verdict"
    assert len(found.to_csv().splitlines()) == 1 + 3
    written = pd.read_csv(io.StringIO(found.to_csv())).set_index("label")
    means = written["value"].astype(str).str.split().str[0].astype(float)  # with two digits
    differences = (means - means[found.baseline]).drop(found.baseline).to_dict()
    assert written["difference"].dropna().to_dict() == pytest.approx(differences, abs=0.011)
    assert found.to_markdown().splitlines()[0] == f"|  | {SUITE} |"
    assert "\\toprule" in found.to_latex()
    assert "$\\pm$" in found.to_latex()
    assert found.to_html().count("<tr>") + found.to_html().count("<tr ") >= 4
    assert "Holm" in found.to_html()


def test_what_was_computed_stands_beside_the_run_and_is_used_until_its_scores_change(
    root: Path, monkeypatch: pytest.MonkeyPatch
):
    runs = comparison.finished_runs(root, SUITE)
    first = look.compare(root, samples=50), comparison.intervals(runs, SUITE, samples=50)
    calls = []
    for module, name, value in (
        (compared, "permutation_test", (0.0, 0.5)),
        (comparison, "bootstrap_interval", (0.0, -0.5, 0.5)),
    ):
        monkeypatch.setattr(module, name, lambda *_, value=value, **__: calls.append("computed") or value)
    again = look.compare(root, samples=50), comparison.intervals(runs, SUITE, samples=50)
    assert not calls
    assert again[0].tests.equals(first[0].tests)
    assert again[1].equals(first[1])
    comparison.intervals(runs, SUITE, samples=50, method="bca")
    look.compare(root, samples=51)
    assert len(calls) == 4 + len(first[1])


def test_runs_of_other_data_or_other_code_are_not_averaged(root: Path):
    path = next(root.glob("cosent/*-s1"))
    facts = json.loads((path / "config.json").read_text())
    Run(path).record(git_commit="another")
    with pytest.raises(ValueError, match=f"cosent: runs of different code are not averaged .*{path.name}"):
        look.compare(root, samples=5)
    assert len(look.compare(root, samples=5, mixed=True).values) == 3
    Run(path).record(git_commit=facts["git_commit"], inputs={"train": {"source": "x", "sha256": "1" * 64}})
    other = next(root.glob("cosent/*-s0"))
    Run(other).record(inputs={"train": {"source": "x", "sha256": "2" * 64}})
    with pytest.raises(ValueError, match="cosent: runs of different train"):
        look.compare(root, samples=5)


def test_what_there_is_not_is_refused(root: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=r"no runs 'rankcse' under .*known: cosent"):
        look.compare(root, baseline="rankcse", samples=5)
    with pytest.raises(ValueError, match="was scored on stsb-test"):
        look.compare(root, suites=["stsb-test"], samples=5)
    with pytest.raises(ValueError, match="no finished run"):
        look.compare(tmp_path / "none")
