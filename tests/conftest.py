"""Fixtures: shapes are checked, sockets closed, warnings are errors; real data is used if it is
available."""

import contextlib
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator

# Two threads on a core that is busy otherwise are many times slower than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # a test never waits for a network
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from forking import python, pythons
from jaxtyping import install_import_hook

if TYPE_CHECKING:
    from workbench.data import Pairs, Sentences, Triplets

# Before the first import of the package: every annotated tensor is checked at every call of the
# tests. Settings, data, runs and evaluation are left out: they validate arguments of users, and the
# tests check their errors.
_WITH_TENSORS = ["losses", "ranks", "metrics", "encoder", "methods", "training"]
install_import_hook([f"workbench.{name}" for name in _WITH_TENSORS], "beartype.beartype")

PROJECT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Keep tests out of the user's folders; start notebook kernels as forks of one process that has
    imported their modules."""
    if hasattr(config, "workerinput"):  # of xdist: it has the environment of the first process
        return
    ended = contextlib.ExitStack()
    config.add_cleanup(ended.close)
    folder = tempfile.mkdtemp(prefix="pythons-")
    ended.callback(shutil.rmtree, folder, ignore_errors=True)
    # Empty at first, so that no test reads what an older version has written.
    for name in ("WORKBENCH_CACHE", "IPYTHONDIR", "JUPYTER_CONFIG_DIR"):
        os.environ[name] = f"{folder}/{name.lower()}"
    # Servers of tests are on this machine, which no proxy reaches.
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1,localhost"]))
    if sys.platform == "linux":
        # Or each process would compile the package and the tests.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        ended.enter_context(pythons(Path(folder)))
        os.environ["WORKBENCH_PYTHONS"] = folder
        os.environ["JUPYTER_PATH"] = f"{folder}/trains"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return the cores that this process may use, in a container not all that there are."""
    import joblib

    return joblib.cpu_count()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Import torch and other libraries before tests are distributed, but not the workbench."""
    for spec in specs:
        spec.python = python("tests")


def pytest_collection_finish() -> None:
    """Leave what has been imported out of garbage collection."""
    gc.freeze()


# Tests that share a slow start, of a browser with JupyterLab, a Slurm, an environment or runs, run
# in one process.
_BROWSER = [
    "test_browser.py",
    "test_hover.py",
    "test_offline.py",
    "test_share.py",
    "test_slides.py",
    "test_views_table.py",
    "acceptance/test_views.py",
]
_INSTALLED = ["test_installed.py"]
_SLURM = ["acceptance/test_sweeps.py"]
TOGETHER = dict.fromkeys(_BROWSER, "browser") | dict.fromkeys(_SLURM, "slurm")
TOGETHER |= dict.fromkeys(_INSTALLED, "installed")
TOGETHER |= {file: file for file in ("acceptance/test_notebooks.py", "acceptance/test_training.py")}


def goes_with(nodeid: str) -> str:
    """Return the group of a test, or the test itself: tests of a group run in the same process."""
    return TOGETHER.get(nodeid.partition("::")[0].removeprefix("tests/"), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep groups in one process; marks of xdist have no effect under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return goes_with(nodeid)

    return Together(config, log) if config.getoption("dist") == "loadgroup" else None


def local_data_root() -> Path | None:
    """Return WORKBENCH_DATA, otherwise shared/data next to the checkout, otherwise None."""
    named = os.environ.get("WORKBENCH_DATA")
    candidates = [Path(named)] if named else [PROJECT.parent / "shared" / "data"]
    return next((path for path in candidates if (path / "MANIFEST.json").is_file()), None)


@pytest.fixture
def real_data(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set WORKBENCH_DATA to the folder with real benchmarks; skip the test if there is none."""
    root = local_data_root()
    if root is None:
        pytest.skip(
            "no local data root: set WORKBENCH_DATA to a folder in the format of data/README.md"
        )
    monkeypatch.setenv("WORKBENCH_DATA", str(root))
    return root


@pytest.fixture(scope="session", autouse=True)
def _fp32_on_any_processor() -> Iterator[None]:
    """Use fp32 for `precision="auto"`, as processors with bf16 would differ by over 1e-5."""
    import torch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cpu, "get_capabilities", dict)
        yield


@pytest.fixture
def no_type_checks() -> Iterator[None]:
    """Disable the type checks of the tests, so that the errors are those that a user meets."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(autouse=True)
def _no_type_checks_of_whole_runs(request: pytest.FixtureRequest) -> None:
    """Leave types to the other tests, which call the same functions: a training would take half as
    long again."""
    if request.node.get_closest_marker("slow"):
        request.getfixturevalue("no_type_checks")


@pytest.fixture(autouse=True)
def _no_network(socket_disabled_except_loopback: None) -> None:
    """Deny network access to every test."""


@pytest.fixture
def socket_disabled_except_loopback() -> object:
    """Raise on connections to other machines; loopback and Unix sockets are allowed."""
    import pytest_socket

    pytest_socket.socket_allow_hosts(["127.0.0.1", "localhost", "::1"], allow_unix_socket=True)
    yield
    pytest_socket._remove_restrictions()


WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "chases",
    "sees",
    "likes",
    "red",
    "small",
    "old",
    "in",
    "park",
    "today",
    "not",
]


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an untrained BERT of one layer and dimension 16."""
    import torch
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("encoder") / "tiny"
    vocabulary = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        *WORDS,
        *"abcdefghijklmnopqrstuvwxyz",
    ]
    vocabulary += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    tokenizer = BertTokenizer(
        vocab={piece: number for number, piece in enumerate(vocabulary)}, model_max_length=64
    )
    torch.manual_seed(0)
    shape = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
    }
    model = BertModel(
        BertConfig(vocab_size=len(vocabulary), max_position_embeddings=64, **shape),
        add_pooling_layer=False,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_sentences() -> list[str]:
    """Return sixty different sentences in the tiny encoder's vocabulary."""
    import random

    draw = random.Random(0)
    found: dict[str, None] = {}
    while len(found) < 60:
        found[" ".join(draw.choices(WORDS, k=draw.randint(3, 7)))] = None
    return list(found)


@pytest.fixture(scope="session")
def sentences(tiny_sentences: list[str]) -> "Sentences":
    """Return the same sentences as a training set."""
    from workbench.data import Sentences

    return Sentences("tiny", tiny_sentences, "made here", "0")


@pytest.fixture(scope="session")
def graded(tiny_sentences: list[str]) -> "Pairs":
    """Return 24 pairs scored from 0 to 5, with similar and dissimilar partners of four
    sentences."""
    import numpy as np

    from workbench.data import Pairs

    gold = np.array([0.0, 1.2, 2.5, 2.6, 5.0, 4.8, 3.0, 0.4] * 3)
    first, ids = tiny_sentences[:4] * 6, [str(row) for row in range(24)]
    return Pairs(
        "graded", first, tiny_sentences[4:28], gold, None, ids, (0.0, 5.0), "made here", "0"
    )


@pytest.fixture(scope="session")
def listed(tiny_sentences: list[str]) -> "Pairs":
    """Return twelve queries with four or five targets each, some of equal gold; a few targets are
    queries too."""
    from workbench.data import Pairs

    rows = [(query, target) for query in range(12) for target in range(4 + query % 2)]
    gold = [(3 * query + 2 * target) % 4 + 1.0 for query, target in rows]
    targets = [tiny_sentences[12 + (7 * query + target) % 48] for query, target in rows]
    first = [tiny_sentences[query] for query, _ in rows]
    return Pairs.from_lists(first, targets, gold, name="listed", scale=(0, 5))


@pytest.fixture(scope="session")
def small_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return settings dev and suites: files with twelve queries of the bundled world each,
    evaluated in a moment."""
    import pandas as pd

    from workbench.data import load_pairs

    folder, settings = tmp_path_factory.mktemp("small"), {}
    for name in ("dev", "test"):
        pairs = load_pairs(f"world-{name}")
        rows = {"sentence1": pairs.sentence1, "sentence2": pairs.sentence2, "score": pairs.gold}
        settings["suites" if name == "test" else name] = str(folder / f"small-{name}.csv")
        pd.DataFrame(rows)[:84].to_csv(folder / f"small-{name}.csv", index=False)
    return settings


@pytest.fixture(scope="session")
def triplets(tiny_sentences: list[str]) -> "Triplets":
    """Return twelve triplets of them."""
    from workbench.data import Triplets

    return Triplets(
        "triplets",
        tiny_sentences[:12],
        tiny_sentences[12:24],
        tiny_sentences[24:36],
        "made here",
        "0",
    )


@pytest.fixture(scope="session")
def spread_encoder(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the tiny encoder with weights large enough that sentences differ clearly.

    No two cosines of one list are within 1e-6, so rounding reorders nothing.
    """
    from tiny_checkpoints import enlarged

    return enlarged(tiny_encoder, tmp_path_factory.mktemp("spread") / "simcse-spread", 20.0)


@pytest.fixture(scope="session")
def wide_teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a teacher of another kind, with twice the dimension and its own vocabulary."""
    from tiny_checkpoints import tiny_model, tiny_tokenizer

    folder = tmp_path_factory.mktemp("teacher") / "diffcse-roberta"
    tiny_model("roberta").save_pretrained(folder)
    tiny_tokenizer(
        "roberta", words=["cat", "dog", "park", "red", "the", "a", "sees", "not"]
    ).save_pretrained(folder)
    return folder


@pytest.fixture
def in_two_processes(tmp_path: Path) -> Callable[[str, Any], Any]:
    """Return a function (script, jobs) -> results of the script, started twice by torchrun."""
    import subprocess

    import torch

    def run(script: str, jobs: Any) -> Any:
        files = [tmp_path / name for name in ("script.py", "jobs.pt", "results.pt")]
        files[0].write_text(script)
        torch.save(jobs, files[1])
        # With an address: the name of a machine need not resolve.
        options = ["--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
        launcher = [python(), "-m", "torch.distributed.run", *options]
        done = subprocess.run([*launcher, *files], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return torch.load(files[2], weights_only=False)

    return run


RUNNING = contextlib.ExitStack()  # Chromium and JupyterLab, for consecutive tests that use them
STARTED: dict[str, Any] = {}


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End Chromium before other tests: its event loop runs in this thread, and no test could start
    another."""
    if nextitem is None or goes_with(nextitem.nodeid) != "browser":
        RUNNING.close()
        STARTED.clear()


@pytest.fixture(scope="module")
def browser() -> Any:
    """Return a Chromium; skip the test if there is none."""
    from live_lab import FLAGS

    executable = next(
        filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
    )
    if executable is None:
        pytest.skip(
            "no Chromium on this machine: install chromium, or google-chrome, for the "
            "tests in a browser"
        )
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if "browser" not in STARTED:
        started = RUNNING.enter_context(playwright.sync_playwright())
        chromium = started.chromium.launch(executable_path=executable, args=FLAGS)
        RUNNING.callback(chromium.close)
        page = chromium.new_page()
        with tempfile.NamedTemporaryFile(suffix=".html") as file:
            try:  # that of a snap reads no file there
                page.goto(f"file://{file.name}")
            except playwright.Error as problem:
                RUNNING.close()  # the next module asks again
                pytest.skip(f"this Chromium cannot read {tempfile.gettempdir()}: {problem}")
        page.close()
        STARTED["browser"] = chromium
    return STARTED["browser"]


@pytest.fixture(scope="module")
def jupyter(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a JupyterLab: the `folder` that it serves, its `address`, and a `watched` page for its
    notebooks."""
    from types import SimpleNamespace

    from live_lab import Watched, jupyterlab

    if "jupyter" not in STARTED:
        folder = tmp_path_factory.mktemp("lab") / "notebooks"
        folder.mkdir()
        address = RUNNING.enter_context(jupyterlab(folder))
        STARTED["jupyter"] = SimpleNamespace(
            folder=folder, address=address, watched=Watched(browser)
        )
    return STARTED["jupyter"]


_PEAK = """
import re
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@pytest.fixture
def memory_growth() -> Callable[[str, str], int]:
    """Return a function (first, then) -> bytes that `then` adds to the peak after `first`.

    Both are code. ru_maxrss would not do: a process inherits it, and a large pytest would hide any
    growth."""
    import subprocess

    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux tells the peak of a process's own memory")

    def grown(first: str, then: str) -> int:
        code = f"{_PEAK}\n{first}\nbefore = peak()\n{then}\nprint(peak() - before)"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return int(done.stdout.splitlines()[-1])

    return grown
