"""The bundled English encoder: small, offline, one embedding in three libraries, with the scores of
its card."""

import re
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from workbench.config import SEVEN_STS
from workbench.data import load_pairs
from workbench.encoder import Encoder
from workbench.files import project_path
from workbench.metrics import spearman

NAME = "english-encoder"
FOLDER = project_path("data") / "models" / NAME
SENTENCES = [
    "The bakery opens at seven.",
    "At seven the baker unlocks the shop.",
    "Rain is expected in the north.",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.from_pretrained(NAME)


def test_three_libraries_read_one_embedding_from_it(encoder: Encoder) -> None:
    ours = encoder.encode(SENTENCES)
    theirs = SentenceTransformer(str(FOLDER), device="cpu", model_kwargs={"dtype": torch.float32})
    tokens = AutoTokenizer.from_pretrained(FOLDER)(SENTENCES, padding=True, return_tensors="pt")
    mask = tokens["attention_mask"].unsqueeze(-1)
    with torch.no_grad():
        states = (
            AutoModel.from_pretrained(FOLDER, dtype=torch.float32)
            .eval()(**tokens)
            .last_hidden_state
        )
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    # float32 rounding through four layers
    torch.testing.assert_close(ours, mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        ours, torch.tensor(theirs.encode(SENTENCES, normalize_embeddings=True)), atol=1e-5, rtol=0
    )


def measured(encoder: Encoder, name: str) -> float:
    """Return Spearman x 100 of cosine and gold."""
    pairs = load_pairs(name)
    first, second = (encoder.encode(side) for side in (pairs.sentence1, pairs.sentence2))
    return 100 * spearman(pairs.gold, (first * second).sum(1).numpy())


@pytest.mark.slow
def test_it_has_the_scores_of_its_card(encoder: Encoder, real_data: Path) -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    scores = {
        name: float(score) for name, score in re.findall(r"(?m)^\| ([\w-]+) \| (-?[\d.]+) \|", card)
    }
    assert {*SEVEN_STS, "stsb-dev", "ladders-all"} <= set(scores)
    name = "sts16-test"  # the smallest: all seven take a minute
    assert measured(encoder, name) == pytest.approx(scores[name], abs=0.05)
