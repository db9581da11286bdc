"""A published model can be loaded again; its card contains the scores and nothing of this machine."""

from pathlib import Path

import pytest
import torch
from hub_stand_in import hub, problems_of
from huggingface_hub import ModelCard
from written_runs import write_run

from workbench.config import BaselineConfig
from workbench.encoder import Encoder, push_folder, push_run
from workbench.errors import RunError

METRICS = {"world-test": {"spearman": 0.45678, "kcc": 0.3, "ndcg": None, "n": 10}, "my average": {"spearman": 0.5}}


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "encoder"
    datasets = ["/data/mine.csv", "world", "stsb-train"]
    card = {"base_model": str(tiny_encoder), "datasets": datasets}
    Encoder.from_pretrained(tiny_encoder, device="cpu").save(folder, card=card)
    return folder


def test_a_dry_run_sends_nothing_and_a_pushed_encoder_is_loaded_again_and_its_card_has_the_scores_and_no_path(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    encoder = Encoder.from_pretrained(saved, device="cpu")
    with hub() as (address, repositories):
        for name, value in {"ENDPOINT": address, "HF_HUB_OFFLINE": False, "HF_HUB_DISABLE_XET": True}.items():
            monkeypatch.setattr(f"huggingface_hub.constants.{name}", value)
        monkeypatch.setattr("huggingface_hub.hf_api.api.endpoint", address)
        monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
        card = {"metrics": METRICS, "model_name": "simcse-s0", "language": "en", "license": ""}
        files = push_folder(saved, "me/mine", **card, dry_run=True)
        assert not repositories
        assert {"model.safetensors", "README.md", "config.json"} <= set(files)
        assert not any(file.startswith(".") for file in files)
        push_folder(saved, "me/mine", **card)
        encoder.push_to_hub("me/other", card={"license": "mit"})
        with pytest.raises(RunError, match=r"(?s)me/third was not pushed.*must be one of \[mit"):
            encoder.push_to_hub("me/third", card={"license": "mitt"})
    assert set(repositories) == {"me/mine", "me/other"}
    require_scores_and_no_path(repositories["me/mine"]["README.md"].decode(), saved.parent)
    for name, content in repositories["me/other"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    again = Encoder.from_pretrained(tmp_path, device="cpu")
    assert torch.equal(again.encode(["the cat sees"]), encoder.encode(["the cat sees"]))


def require_scores_and_no_path(text: str, folder: Path) -> None:
    """Check that the hub reads the scores of METRICS, and that local paths are left out."""
    card = ModelCard(text)
    found = {(one.dataset_name, one.metric_type): one.metric_value for one in card.data.eval_results or []}
    scores = {
        ("world-test", "spearman_cosine"): 0.4568,
        ("world-test", "kcc"): 0.3,
        ("my average", "spearman_cosine"): 0.5,
    }
    assert found == scores
    assert not problems_of(text)  # a set's type has no space
    assert (card.data.model_name, card.data.language) == ("simcse-s0", "en")
    assert card.data.base_model is None
    assert card.data.datasets == ["princeton-nlp/datasets-for-simcse"]
    assert 'SentenceTransformer("me/mine")' in text
    assert str(folder) not in text
    assert "/data/" not in text


def test_a_push_without_an_encoder_or_a_hub_is_refused(saved: Path, tmp_path: Path):
    run = write_run(tmp_path, BaselineConfig.from_parameters("demo"), 0.5)
    with pytest.raises(RunError, match="no saved encoder"):
        push_run(run, "me/mine", dry_run=True)
    with pytest.raises(RunError, match=r"me/mine was not pushed: .* `hf auth login`"):  # the tests are offline
        push_folder(saved, "me/mine")
