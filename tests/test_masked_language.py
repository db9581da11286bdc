"""The loss of masked words: equal to transformers', drawn from the seed only, absent from the saved
encoder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from tiny_checkpoints import tiny_model, tiny_tokenizer
from transformers import AutoModelForMaskedLM, BertForMaskedLM, RobertaForMaskedLM

from workbench.config import SimCSEConfig
from workbench.data import Sentences
from workbench.encoder import Encoder
from workbench.methods.masked_language import MaskedLanguageModel
from workbench.methods.simcse import SimCSE
from workbench.runs import Run
from workbench.training import fit


def pretrained(folder: Path, kind: str) -> Path:
    """Return a masked language model with its head, like a pretrained checkpoint."""
    torch.manual_seed(3)
    model = {"bert": BertForMaskedLM, "roberta": RobertaForMaskedLM}[kind](tiny_model(kind).config)
    model.save_pretrained(folder)
    tiny_tokenizer(kind).save_pretrained(folder)
    return folder


def trained_on(encoder: Path, sentences: Sentences, **settings: Any) -> SimCSE:
    small = {
        "encoder": str(encoder),
        "device": "cpu",
        "precision": "fp32",
        "dropout": 0.0,
        "batch_size": 8,
    }
    method = SimCSE(SimCSEConfig.from_parameters("demo", 0, small | {"mlm_weight": 0.1} | settings))
    method.prepare(sentences)
    return method.train()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_the_loss_is_that_of_the_checkpoints_own_masked_language_model(
    kind: str, tmp_path: Path, sentences: Sentences
):
    method = trained_on(pretrained(tmp_path / kind, kind), sentences)
    torch.manual_seed(7)
    tokens = method.collate(range(40))["tokens"]
    found = method.mlm_terms(tokens)["mlm"]
    labels = torch.where(tokens["chosen"], tokens["input_ids"], -100)
    model = AutoModelForMaskedLM.from_pretrained(tmp_path / kind).train(False)
    wanted = model(
        input_ids=tokens["masked"], attention_mask=tokens["attention_mask"], labels=labels
    ).loss
    # Packed rows are other products of the same numbers; the loss is about 3.
    torch.testing.assert_close(found, 0.1 * wanted, rtol=1e-5, atol=0)


def test_bert_masks_as_its_paper_says_and_never_a_special_token(tiny_encoder: Path):
    encoder = Encoder.from_pretrained(tiny_encoder, device="cpu")
    tokens = encoder.tokenize(["the red cat sees a small dog in the old park today"] * 4000)
    ids = tokens["input_ids"]
    torch.manual_seed(0)
    holed = MaskedLanguageModel(encoder).mask(ids)
    special = torch.isin(ids, torch.tensor(encoder.tokenizer.all_special_ids))
    chosen = holed["chosen"]
    assert not bool((chosen & special).any())
    assert torch.equal(holed["masked"][~chosen], ids[~chosen])
    assert holed["counts"] == chosen.sum(dim=1).tolist()
    now, known = holed["masked"][chosen], len(encoder.tokenizer)
    masked, kept = now == encoder.tokenizer.mask_token_id, now == ids[chosen]
    # A word drawn at random is now and then the same, or [MASK].
    wanted = (0.15, 0.8 + 0.1 / known, 0.1 + 0.1 / known)
    counts = ((chosen, int((~special).sum())), (masked, len(now)), (kept, len(now)))
    for share, (happened, among) in zip(wanted, counts, strict=True):
        # Five standard deviations of a binomial share: seen by chance once in a million draws.
        assert abs(int(happened.sum()) / among - share) < 5 * (share * (1 - share) / among) ** 0.5


def test_which_words_are_masked_follows_from_the_seed_whatever_the_chunks_and_the_weight(
    tiny_encoder: Path, sentences: Sentences
):
    found = {}
    for weight, size in ((0.1, None), (0.1, 3), (0.2, None)):
        method = trained_on(tiny_encoder, sentences, mlm_weight=weight, chunk_size=size)
        torch.manual_seed(1)
        found[weight, size] = float(method.double()(method.collate(range(8)))["mlm"].detach())
    assert found[0.1, 3] == pytest.approx(found[0.1, None], rel=1e-12)
    assert found[0.2, None] == pytest.approx(2 * found[0.1, None], rel=1e-12)
    torch.manual_seed(2)
    assert float(method.double()(method.collate(range(8)))["mlm"].detach()) != pytest.approx(
        found[0.2, None]
    )


def test_the_head_is_kept_in_the_state_and_not_in_the_encoder(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
):
    method = trained_on(tiny_encoder, sentences, max_steps=2, save_steps=1)
    run = Run.open(method.config, tmp_path)
    history = fit(method, sentences, run=run)
    assert (history["mlm"].dropna() > 0).all()
    with safe_open(run.path / "checkpoint" / "state.safetensors", "pt") as state:
        heads = [name for name in state.keys() if name.startswith("weights.words.head")]  # noqa: SIM118
    assert heads
    plain = trained_on(tiny_encoder, sentences, mlm_weight=0)
    plain.save(tmp_path / "plain")
    files = (run.path / "encoder" / "model.safetensors", tmp_path / "plain" / "model.safetensors")
    with safe_open(files[0], "pt") as saved, safe_open(files[1], "pt") as without:
        assert set(saved.keys()) == set(without.keys())
