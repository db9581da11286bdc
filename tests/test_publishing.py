"""What is published can be loaded again, and its card says what was measured, and nothing of this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_stand_in import hub
from huggingface_hub import ModelCard

from workbench.encoder import Encoder
from workbench.errors import RunError
from workbench.publishing import push_evaluated, push_folder, with_results

METRICS = {"world-test": {"spearman": 0.45678, "kcc": 0.3, "ndcg": None, "n": 10}, "average": {"spearman": 0.5}}
PUSH_AND_PULL = """
import sys, torch
from pathlib import Path
from workbench.encoder import Encoder
from workbench.publishing import push_evaluated
folder = Path(sys.argv[1])
mine = Encoder.from_pretrained(folder, device="cpu", precision="fp32")
print(*push_evaluated(folder, "simcse-s0", {"world-test": {"spearman": 0.45678}}, "me/mine", license="mit"))
print(*mine.push_to_hub("me/other", card={"license": "mit"}))
sentences = ["the red cat", "a dog sees"]
for name in ("me/mine", "me/other"):
    theirs = Encoder.from_pretrained(name, device="cpu", precision="fp32")
    assert theirs.source.startswith("hub:" + name), theirs.source
    assert torch.equal(theirs.encode(sentences), mine.encode(sentences))
"""


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "encoder"
    card = {"base_model": str(tiny_encoder), "datasets": ["/data/mine.csv"], "results": {"dev": 0.1}}
    Encoder.from_pretrained(tiny_encoder, device="cpu").save(folder, card=card)
    return folder


@pytest.mark.slow
def test_a_pushed_encoder_pulled_back_has_the_same_embeddings(saved: Path, tmp_path: Path):
    with hub() as (address, repositories):
        settings = {"HF_ENDPOINT": address, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "0", "HF_TOKEN": "hf_of_nobody"}
        environment = {**os.environ, **settings, "HF_HUB_DISABLE_XET": "1"}
        command = [sys.executable, "-c", PUSH_AND_PULL, str(saved)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert set(repositories) == {"me/mine", "me/other"}
    assert {"README.md", "config.json", "model.safetensors", "modules.json"} <= set(repositories["me/mine"])
    card = ModelCard(repositories["me/mine"]["README.md"].decode())
    assert card.data.license == "mit"
    assert "model.safetensors (" in done.stdout


def test_the_card_has_the_scores_as_the_hub_reads_them_and_no_path(saved: Path):
    text = with_results((saved / "README.md").read_text(), "simcse-s0", METRICS, language="en", license="")
    card = ModelCard(text)
    found = {(one.dataset_name, one.metric_type): one.metric_value for one in card.data.eval_results or []}
    scores = {
        ("world-test", "spearman_cosine"): 0.4568,
        ("world-test", "kcc"): 0.3,
        ("average", "spearman_cosine"): 0.5,
    }
    assert found == scores
    assert (card.data.model_name, card.data.language) == ("simcse-s0", "en")
    assert card.data.base_model is None
    assert card.data.datasets is None
    assert str(saved.parent) not in text
    assert "/data/" not in text
    assert text.count("## Results") == 1
    assert "| world-test | Spearman | 0.4568 |" in text


def test_a_dry_run_lists_the_files_and_sends_nothing(saved: Path):
    with hub() as (_, repositories):
        files = push_evaluated(saved, "simcse-s0", METRICS, "me/mine", dry_run=True)
    assert not repositories
    assert any(file.startswith("model.safetensors (") for file in files)
    assert not any(file.startswith(".") for file in files)
    assert "0.45" not in (saved / "README.md").read_text()


def test_a_name_that_the_hub_cannot_have_and_a_hub_that_is_not_there_are_refused(saved: Path):
    with pytest.raises(RunError, match=r"me/a/b was not pushed .* OWNER/NAME"):
        push_folder(saved, "me/a/b", dry_run=True)
    with pytest.raises(RunError, match="was not pushed"):  # the tests are offline
        push_folder(saved, "me/mine")
