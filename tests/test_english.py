"""The bundled English encoder: small, offline by name, one embedding in three libraries, its card's scores."""

import re
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from transformers import AutoModel, AutoTokenizer

from workbench.config import SEVEN_STS
from workbench.data import load_pairs
from workbench.encoder import Encoder
from workbench.files import project_path
from workbench.metrics import spearman

NAME = "english-encoder"
FOLDER = project_path("data") / "models" / NAME
SENTENCES = ["The bakery opens at seven.", "At seven the baker unlocks the shop.", "Rain is expected in the north."]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder.from_pretrained(NAME)


def test_it_is_small_and_half_precision() -> None:
    assert (FOLDER / "model.safetensors").stat().st_size <= 11e6
    with safe_open(FOLDER / "model.safetensors", "pt") as weights:
        assert {weights.get_slice(key).get_dtype() for key in weights.keys()} == {"F16"}  # noqa: SIM118


def test_three_libraries_read_one_embedding_from_it(encoder: Encoder) -> None:
    ours = encoder.encode(SENTENCES)
    theirs = SentenceTransformer(str(FOLDER), device="cpu", model_kwargs={"dtype": torch.float32})
    tokens = AutoTokenizer.from_pretrained(FOLDER)(SENTENCES, padding=True, return_tensors="pt")
    mask = tokens["attention_mask"].unsqueeze(-1)
    with torch.no_grad():
        states = AutoModel.from_pretrained(FOLDER, dtype=torch.float32).eval()(**tokens).last_hidden_state
    mean = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
    # float32 rounding through four layers
    torch.testing.assert_close(ours, mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        ours, torch.tensor(theirs.encode(SENTENCES, normalize_embeddings=True)), atol=1e-5, rtol=0
    )


def test_it_ranks_a_paraphrase_above_other_news(encoder: Encoder) -> None:
    query, paraphrase, other = encoder.encode(SENTENCES)
    assert encoder.pooling == "mean"
    assert query @ paraphrase > 0.5 > query @ other


def card_scores() -> dict[str, float]:
    rows = re.findall(
        r"^\| ([\w-]+) \| (-?[\d.]+) \|", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: float(score) for name, score in rows}


def test_the_card_has_the_scores_of_all_seven_sets_and_the_ladders(encoder: Encoder) -> None:
    scores = card_scores()
    assert {*SEVEN_STS, "stsb-dev", "ladders-all"} <= set(scores)
    assert measured(encoder, "ladders-all") == pytest.approx(scores["ladders-all"], abs=0.05)


@pytest.mark.slow
def test_it_has_the_scores_of_its_card(encoder: Encoder, real_data: Path) -> None:
    scores = card_scores()
    for name in ("stsb-dev", "stsb-test", "sts16-test", "sts13-test"):  # the smaller ones: all seven take a minute
        score = scores[name]
        assert measured(encoder, name) == pytest.approx(score, abs=0.05), name


def measured(encoder: Encoder, name: str) -> float:
    """Spearman x 100 of cosine and gold."""
    pairs = load_pairs(name)
    return 100 * spearman(
        pairs.gold, (encoder.encode(pairs.sentence1) * encoder.encode(pairs.sentence2)).sum(1).numpy()
    )
