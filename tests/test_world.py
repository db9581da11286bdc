"""The bundled world: rebuilt byte for byte, graded by meaning, and with a starting encoder and teacher that fit it."""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoTokenizer

ROOT = Path(__file__).parents[1]
WORLD = ROOT / "data" / "world"
FILES = ("world_sentences.tsv.gz", "world.train.tsv.gz", "world.dev.tsv.gz", "world.test.tsv.gz")
sys.path.insert(0, str(ROOT / "data" / "build"))

import grammar  # noqa: E402
import meaning  # noqa: E402
import world  # noqa: E402
import world_measure  # noqa: E402
from draw import Draw  # noqa: E402
from lexicon import DOMAINS  # noqa: E402


def rows(name: str) -> list[list[str]]:
    """The rows of a committed file, without its header."""
    lines = gzip.decompress((WORLD / name).read_bytes()).decode().splitlines()
    return [line.split("\t") for line in lines[1:]]


def pairs(split: str) -> list[world.Pair]:
    return [world.Pair(query, float(score), a, b, how) for query, score, a, b, how in rows(f"world.{split}.tsv.gz")]


@pytest.fixture(scope="module")
def frames() -> list[meaning.Frame]:
    there, draw = meaning.World(5), Draw("frames of a test")
    return [there.frame(draw) for _ in range(300)]


# --- the files -------------------------------------------------------------------------------------------------------


def test_committed_files_equal_a_rebuild() -> None:
    rebuilt = world.contents(seed=0)
    assert sorted(rebuilt) == sorted(FILES)
    for name, content in rebuilt.items():
        committed = gzip.decompress((WORLD / name).read_bytes())
        assert hashlib.sha256(committed).hexdigest() == hashlib.sha256(content).hexdigest(), name


def test_another_process_with_another_hash_seed_writes_the_same_archives(tmp_path: Path) -> None:
    script = [sys.executable, str(ROOT / "data" / "build" / "world.py"), "--out", str(tmp_path)]
    subprocess.run(script, check=True, capture_output=True, env=os.environ | {"PYTHONHASHSEED": "4242"})
    for name in FILES:
        assert gzip.decompress((tmp_path / name).read_bytes()) == gzip.decompress((WORLD / name).read_bytes()), name
        assert (tmp_path / name).read_bytes()[4:8] == b"\0\0\0\0", "a time stamp would change the checksum"


def test_no_line_repeats_and_none_is_a_sentence_of_a_pair() -> None:
    lines = [line for (line,) in rows("world_sentences.tsv.gz")]
    graded = {text for split in world.QUERIES for p in pairs(split) for text in (p.sentence1, p.sentence2)}
    assert len(lines) == len(set(lines)) == 30_000
    assert graded.isdisjoint(lines)


def test_splits_share_no_meaning_and_no_sentence() -> None:
    class Ledger(dict[meaning.Frame, str]):
        def update(self, owned) -> None:  # type: ignore[override]
            for frame, split in owned:
                assert self.setdefault(frame, split) == split

    ledger, said = Ledger(), defaultdict(set)
    for split, count in world.QUERIES.items():
        for pair in world.build_pairs(meaning.World(0), ledger, split, count):
            said[pair.sentence1].add(split)
            said[pair.sentence2].add(split)
    assert set(ledger.values()) == set(world.QUERIES)
    assert max(len(splits) for splits in said.values()) == 1


def test_every_query_has_seven_different_targets_none_of_them_itself() -> None:
    for split, count in world.QUERIES.items():
        targets = defaultdict(list)
        for pair in pairs(split):
            targets[pair.query_id, pair.sentence1].append(pair.sentence2)
        assert len(targets) == len({query for _, query in targets}) == count
        for (_, query), found in targets.items():
            assert len(found) == len({*found, query}) - 1 == 7


# --- the gold --------------------------------------------------------------------------------------------------------


def test_gold_is_five_for_the_same_meaning_and_symmetric(frames: list[meaning.Frame]) -> None:
    for a, b in pairwise(frames):
        assert meaning.gold(a, a) == 5.0
        assert meaning.gold(a, b) == meaning.gold(b, a)
        assert 0.0 <= meaning.gold(a, b) < 5.0
        assert meaning.gold(a, b) * 5 == pytest.approx(round(meaning.gold(a, b) * 5), abs=1e-12)


def test_gold_by_hand() -> None:
    kitchen = next(domain for domain in DOMAINS if domain.name == "kitchen")
    chef, baker = (meaning.Entity("kitchen", "people", words) for words in kitchen.agents[:2])
    tomato, onion = (meaning.Entity("kitchen", "produce", words) for words in kitchen.objects["produce"][:2])
    slicing = next(action for action in meaning.ACTIONS["kitchen"] if "slice" in action.words)
    bare = meaning.Frame("kitchen", chef, slicing, tomato, None, None, None, None, None, False)
    # weights: what 30, whom 24, who 22; together 76
    assert meaning.gold(bare, replace(bare, whom=onion)) == 4.2  # 5 * (30 + 22 + .55 * 24) / 76 = 4.29
    assert meaning.gold(bare, replace(bare, who=baker)) == 4.2  # 5 * (30 + 24 + .4 * 22) / 76 = 4.13
    assert meaning.gold(bare, replace(bare, negated=True)) == 3.0  # 5 * .6
    assert meaning.gold(bare, replace(bare, when=("today",))) == 4.8  # 5 * (76 + .4 * 6) / 82 = 4.78


def test_word_overlap_explains_less_than_tfidf_and_neither_explains_all() -> None:
    corpus = [line for (line,) in rows("world_sentences.tsv.gz")]
    dev = pairs("dev")
    gold = [p.score for p in dev]
    overlap = world_measure.spearman(gold, world_measure.word_overlap(dev))
    tfidf = world_measure.spearman(gold, world_measure.tfidf(corpus, dev))
    assert overlap + 0.03 < tfidf < 0.80


# --- the language ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        ("chop", ("chops", "chopping", "chopped")),
        ("wash", ("washes", "washing", "washed")),
        ("bake", ("bakes", "baking", "baked")),
        ("carry", ("carries", "carrying", "carried")),
        ("play", ("plays", "playing", "played")),
        ("free", ("frees", "freeing", "freed")),
        ("tie up", ("ties up", "tying up", "tied up")),
        ("operate on", ("operates on", "operating on", "operated on")),
        ("marvel at", ("marvels at", "marveling at", "marveled at")),
        ("begin", ("begins", "beginning", "begun")),
        ("overtake", ("overtakes", "overtaking", "overtaken")),
        ("fix", ("fixes", "fixing", "fixed")),
    ],
)
def test_verb_forms(verb: str, expected: tuple[str, str, str]) -> None:
    assert grammar.forms(verb) == expected


def test_wording_says_who_does_what_to_whom_in_either_voice(frames: list[meaning.Frame]) -> None:
    draw, voices = Draw("voices of a test"), Counter()
    for frame in frames:
        line = grammar.wording(frame, draw)
        who, whom = ([f" {word} " for word in one.words] for one in (frame.who, frame.whom))
        padded = f" {line} "
        first = min(padded.find(word) for word in who if word in padded)
        second = min(padded.find(word) for word in whom if word in padded)
        passive = " by " in padded
        voices[passive] += 1
        assert (first > second) == passive, line
        assert (" never " in padded) == frame.negated, line
    assert min(voices.values()) > 50


# --- the models ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "layers", "width"), [("world-encoder", 2, 128), ("world-teacher", 4, 192)])
def test_models_are_small_bare_half_precision_berts_that_know_every_word(name: str, layers: int, width: int) -> None:
    folder = ROOT / "data" / "models" / name
    config = AutoConfig.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert (config.model_type, config.num_hidden_layers, config.hidden_size) == ("bert", layers, width)
    assert len(tokenizer) == config.vocab_size
    assert tokenizer.model_max_length == config.max_position_embeddings == 64
    with safe_open(folder / "model.safetensors", "pt") as weights:
        assert {weights.get_tensor(key).dtype for key in weights.keys()} == {torch.float16}  # noqa: SIM118
        assert not [key for key in weights.keys() if "pooler" in key]  # noqa: SIM118
    assert "license: mit" in (folder / "README.md").read_text(encoding="utf-8")
    lines = [line for (line,) in rows("world_sentences.tsv.gz")]
    words = sorted({word for line in lines for word in line.split()})
    assert all(tokenizer.unk_token_id not in row for row in tokenizer(words)["input_ids"])
    assert max(map(len, tokenizer(sorted(lines, key=len)[-500:])["input_ids"])) <= 64
    assert tokenizer("THE Chef")["input_ids"] == tokenizer("the chef")["input_ids"]


def agreement(name: str, sample: list[world.Pair]) -> float:
    """Spearman of the [CLS] cosine with the gold."""
    folder = ROOT / "data" / "models" / name
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32).eval()
    texts = [p.sentence1 for p in sample] + [p.sentence2 for p in sample]
    with torch.no_grad():
        vectors = model(**tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state[:, 0]
    cosines = torch.cosine_similarity(*vectors.chunk(2)).numpy()
    return world_measure.spearman([p.score for p in sample], cosines)


def test_encoder_starts_below_word_overlap_and_the_teacher_is_above_it() -> None:
    sample = pairs("dev")[:280]
    overlap = world_measure.spearman([p.score for p in sample], world_measure.word_overlap(sample))
    start, taught = agreement("world-encoder", sample), agreement("world-teacher", sample)
    assert 0.1 < start < 0.4 < overlap < taught
    assert taught > 0.8
