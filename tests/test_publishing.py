"""A published model can be loaded again; its card contains the scores and nothing of this
machine."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from hub_stand_in import hub, problems_of
from huggingface_hub import ModelCard
from typer.testing import CliRunner
from written_runs import write_run

from workbench.commands.app import app
from workbench.config import BaselineConfig, RankEncoderConfig, SimCSEConfig
from workbench.encoder import Encoder, push_folder, push_run
from workbench.errors import EncoderError, RunError
from workbench.files import checkpoint_checksum
from workbench.runs import Run

METRICS = {
    "world-test": {"spearman": 0.45678, "kcc": 0.3, "ndcg": None, "n": 10},
    "my average": {"spearman": 0.5},
}


@pytest.fixture(scope="module")
def saved(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "encoder"
    datasets = ["/data/mine.csv", "world", "stsb-train"]
    card = {"base_model": str(tiny_encoder), "datasets": datasets}
    Encoder.from_pretrained(tiny_encoder, device="cpu").save(folder, card=card)
    return folder


def test_a_dry_run_sends_nothing_and_a_pushed_encoder_has_a_card_with_scores_and_no_path(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    encoder = Encoder.from_pretrained(saved, device="cpu")
    with hub() as (address, repositories):
        for name, value in {
            "ENDPOINT": address,
            "HF_HUB_OFFLINE": False,
            "HF_HUB_DISABLE_XET": True,
        }.items():
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
        push_folder(saved, "me/hidden", private=True)
        repositories["me/public"] = {}
        with pytest.raises(RunError, match="me/public was not pushed: it exists and is public"):
            push_folder(saved, "me/public", private=True)
    assert not repositories["me/public"]
    assert set(repositories) == {"me/mine", "me/other", "me/hidden", "me/public"}
    require_scores_and_no_path(repositories["me/mine"]["README.md"].decode(), saved.parent)
    for name, content in repositories["me/other"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    again = Encoder.from_pretrained(tmp_path, device="cpu")
    assert torch.equal(again.encode(["the cat sees"]), encoder.encode(["the cat sees"]))


def require_scores_and_no_path(text: str, folder: Path) -> None:
    """Check that the hub reads the scores of METRICS, and that local paths are left out."""
    card = ModelCard(text)
    found = {
        (one.dataset_name, one.metric_type): one.metric_value
        for one in card.data.eval_results or []
    }
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


def test_a_card_has_no_scores_of_a_mixture_whose_corpus_is_not_sent(saved: Path, tmp_path: Path):
    for share, results in ((0.1, 0), (0.0, 3)):
        config = RankEncoderConfig.from_parameters("demo", 0, {"inference_weight": share})
        run = write_run(tmp_path, config, 1.0)
        shutil.copytree(saved, run.path / "encoder")
        run.record(encoder=checkpoint_checksum(run.path))
        card = ModelCard(push_run(run, "me/mine", dry_run=True).card)
        assert len(card.data.eval_results or []) == results


def test_a_push_without_an_encoder_or_a_hub_is_refused(saved: Path, tmp_path: Path):
    run = write_run(tmp_path, BaselineConfig.from_parameters("demo"), 0.5)
    with pytest.raises(RunError, match="no saved encoder"):
        push_run(run, "me/mine", dry_run=True)
    # The tests are offline.
    with pytest.raises(RunError, match=r"me/mine was not pushed: .* `hf auth login`"):
        push_folder(saved, "me/mine")


def test_of_a_folder_the_saved_files_alone_are_sent_and_the_others_are_named(
    saved: Path, tmp_path: Path
):
    folder, outside = tmp_path / "encoder", tmp_path / "outside"
    shutil.copytree(saved, folder)
    outside.mkdir()
    (outside / "config.json").write_text("{}")
    others = [
        "passwords.json",
        "notes.md",
        ".env.json",
        "deep/er/key.txt",
        "1_Pooling/mine.json",
        "corpus.json.gz",
    ]
    for name in others:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("secret")
    (folder / "link.json").symlink_to(outside / "config.json")
    (folder / "deeper").symlink_to(outside)
    os.link(outside / "config.json", folder / "hard.json")
    before = push_folder(saved, "me/mine", dry_run=True)
    pushed = push_folder(folder, "me/mine", dry_run=True)
    assert pushed == before
    assert {"1_Pooling/config.json", "README.md", "model.safetensors", "tokenizer.json"} < {*before}
    assert pushed.left_out == sorted([*others, "link.json", "deeper", "hard.json"])


@pytest.mark.parametrize(
    "name", ["model.safetensors", "config_sentence_transformers.json", "1_Pooling", "README.md"]
)
def test_a_saved_file_that_is_now_a_link_or_gone_is_refused(saved: Path, tmp_path: Path, name: str):
    folder, aside = tmp_path / "encoder", tmp_path / "aside"
    shutil.copytree(saved, folder)
    (folder / name).rename(aside)
    (folder / name).symlink_to(aside)
    with pytest.raises(RunError, match=rf"{name} is a link.*put a copy in its place"):
        push_folder(folder, "me/mine", dry_run=True)
    (folder / name).unlink()
    if name in ("model.safetensors", "README.md"):
        with pytest.raises(RunError, match=rf"has no {name}; save the encoder again"):
            push_folder(folder, "me/mine", dry_run=True)


def test_a_folder_with_a_broken_card_is_refused(saved: Path, tmp_path: Path):
    folder = tmp_path / "encoder"
    shutil.copytree(saved, folder)
    (folder / "README.md").write_text("---\ntags: [\n---\n")
    with pytest.raises(RunError, match=r"me/mine was not pushed: while parsing"):
        push_folder(folder, "me/mine", dry_run=True)


def test_an_encoder_has_one_checksum_whatever_its_card_says(saved: Path, tmp_path: Path):
    for title in ("one", "two"):
        Encoder.from_pretrained(saved, device="cpu").save(tmp_path / title, card={"title": title})
    assert checkpoint_checksum(tmp_path / "one") == checkpoint_checksum(tmp_path / "two")


@pytest.fixture
def run(saved: Path, tmp_path: Path) -> Run:
    """Return a finished run with an encoder, as its training records it."""
    run = write_run(tmp_path / "runs", SimCSEConfig.from_parameters("demo", 0, {}), 0.5)
    shutil.copytree(saved, run.path / "encoder")
    run.record(files={"encoder": {"sha256": checkpoint_checksum(run.path)}})
    return run


def test_the_dry_run_of_a_run_prints_its_card_sizes_and_what_is_left_out(run: Run):
    (run.path / "encoder" / "notes.md").write_text("secret")
    words = ["push", str(run.path), "me/mine", "--dry-run", "--license", "mit"]
    printed = CliRunner().invoke(app, words, catch_exceptions=False).stdout
    assert yaml.safe_load(printed.split("---")[1])["license"] == "mit"
    size = (run.path / "encoder" / "model.safetensors").stat().st_size
    assert f"{size:,} model.safetensors" in printed
    assert "left out, not written by save: notes.md" in printed
    assert "would send to me/mine" in printed


def test_an_encoder_that_was_changed_after_its_run_is_refused(run: Run, saved: Path):
    (run.path / "encoder" / "private.model").write_text("mine")
    pushed = push_run(run, "me/mine", dry_run=True)
    assert "model.safetensors" in pushed
    assert "private.model" in pushed.left_out
    # Files of SentenceTransformer that an Encoder does not read.
    usage = run.path / "encoder" / "config_sentence_transformers.json"
    written = usage.read_text()
    usage.write_text(json.dumps(json.loads(written) | {"truncate_dim": 8}))
    with pytest.raises(EncoderError, match="the files of SentenceTransformer differ"):
        push_run(run, "me/mine", dry_run=True)
    usage.write_text(written)
    (run.path / "encoder" / "private.model").unlink()
    other = Encoder.from_pretrained(saved, device="cpu")
    with torch.no_grad():
        next(other.parameters()).add_(1)
    other.save(run.path / "encoder")
    with pytest.raises(EncoderError, match="was changed after the run saved it"):
        push_run(run, "me/mine", dry_run=True)
    (run.path / "metrics.json").unlink()
    with pytest.raises(RunError, match="the run is not finished"):
        push_run(run, "me/mine", dry_run=True)


HOSTILE = (
    "x\n---\nlicense: evil\n---\n# y <script>alert(1)</script> [a](javascript:b) ![c](d) ``` "
    "`e` $$f$$ \u202e \"g\" 'h'"
)


def test_hostile_texts_stay_text_in_the_card(saved: Path, tmp_path: Path):
    encoder, folder = Encoder.from_pretrained(saved, device="cpu"), tmp_path / "encoder"
    encoder.spec = replace(encoder.spec, prompt=HOSTILE)
    names = ("title", "description", "language", "license", "model_name", "metrics", "tags")
    card = {name: [HOSTILE] if name in ("metrics", "tags") else HOSTILE for name in names}
    encoder.save(folder, card=card)
    push_folder(folder, "me/mine", metrics={HOSTILE: {"spearman": 0.5}}, dry_run=True)
    written = ModelCard.load(folder / "README.md")
    assert (written.data.license, written.data.tags[-1]) == (HOSTILE, HOSTILE)
    prose, *code = written.text.split("```")
    assert len(code) == 2
    assert [line[:3] for line in prose.splitlines() if line] == ["# x", "x -", "A b"]
    assert not {*prose} & {*"<>[]`$\u202e"}
