"""The bundled world and ladders: rebuilt byte for byte, graded by meaning, with an encoder and a
teacher that fit."""

from __future__ import annotations

import gzip
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoConfig, AutoModel, AutoTokenizer

ROOT = Path(__file__).parents[1]
WORLD, LADDERS = ROOT / "data" / "world", ROOT / "data" / "ladders" / "ladders.all.tsv.gz"
sys.path.insert(0, str(ROOT / "data" / "build"))

import ladders  # noqa: E402
import meaning  # noqa: E402
import world  # noqa: E402
import world_measure  # noqa: E402
from lexicon import DOMAINS  # noqa: E402

sys.path.remove(str(ROOT / "data" / "build"))


def rows(path: Path) -> list[list[str]]:
    """Return the rows of a committed file, without its header."""
    return [
        line.split("\t") for line in gzip.decompress(path.read_bytes()).decode().splitlines()[1:]
    ]


def pairs(split: str) -> list[world.Pair]:
    found = rows(WORLD / f"world.{split}.tsv.gz")
    return [world.Pair(query, float(score), a, b, how) for query, score, a, b, how in found]


def test_committed_files_equal_a_rebuild() -> None:
    for name, content in world.contents(seed=0).items():
        assert gzip.decompress((WORLD / name).read_bytes()) == content, name
    assert gzip.decompress(LADDERS.read_bytes()) == ladders.build()
    for path in (LADDERS, *WORLD.glob("*.gz")):
        assert path.read_bytes()[4:8] == bytes(4), "a time in the header would change the file"


def test_lines_and_splits_share_no_sentence_and_each_query_has_its_targets() -> None:
    lines = [line for (line,) in rows(WORLD / "world_sentences.tsv.gz")]
    assert len(lines) == len(set(lines)) == 30_000
    used = defaultdict(set)
    for split, count in world.QUERIES.items():
        targets = defaultdict(list)
        for pair in pairs(split):
            targets[pair.query_id, pair.sentence1].append(pair.sentence2)
            used[pair.sentence1].add(split)
            used[pair.sentence2].add(split)
        assert len(targets) == len({query for _, query in targets}) == count
        for (_, query), found in targets.items():
            assert len(found) == len({*found, query}) - 1 == 7
    assert used.keys().isdisjoint(lines)
    assert max(map(len, used.values())) == 1


def test_gold_by_hand() -> None:
    kitchen = next(domain for domain in DOMAINS if domain.name == "kitchen")
    chef, baker = (meaning.Entity("kitchen", "people", words) for words in kitchen.agents[:2])
    tomato, onion = (
        meaning.Entity("kitchen", "produce", words) for words in kitchen.objects["produce"][:2]
    )
    slicing = next(action for action in meaning.ACTIONS["kitchen"] if "slice" in action.words)
    bare = meaning.Frame("kitchen", chef, slicing, tomato, None, None, None, None, None, False)
    # weights: what 30, whom 24, who 22; together 76
    assert meaning.gold(bare, bare) == 5.0
    # 5 * (30 + 22 + .55 * 24) / 76 = 4.29.
    assert meaning.gold(bare, replace(bare, whom=onion)) == 4.2
    # 5 * (30 + 24 + .4 * 22) / 76 = 4.13.
    assert meaning.gold(bare, replace(bare, who=baker)) == 4.2
    assert meaning.gold(bare, replace(bare, negated=True)) == 3.0  # 5 * .6
    # 5 * (76 + .4 * 6) / 82 = 4.78.
    assert meaning.gold(bare, replace(bare, when=("today",))) == 4.8


def test_every_ladder_leads_from_the_same_meaning_to_none_and_no_sentence_occurs_twice() -> None:
    groups = defaultdict(list)
    for query_id, score, _, _, query, target in rows(LADDERS):
        groups[query_id, query].append((float(score), target))
    assert len(groups) >= 120
    for group in groups.values():
        scores = {score for score, _ in group}
        assert len(group) == 6
        assert scores <= {step / 2 for step in range(11)}
        assert len(scores) >= 4
        assert min(scores) <= 0.5
        assert max(scores) >= 4
    texts = Counter(
        text.lower()
        for (_, query), group in groups.items()
        for text in (query, *(t for _, t in group))
    )
    assert [text for text, count in texts.items() if count > 1] == []


def agreement(folder: Path, sample: list[world.Pair]) -> float:
    """Return Spearman of the [CLS] cosine with the gold."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False, dtype=torch.float32).eval()
    texts = [p.sentence1 for p in sample] + [p.sentence2 for p in sample]
    with torch.no_grad():
        vectors = model(**tokenizer(texts, padding=True, return_tensors="pt")).last_hidden_state[
            :, 0
        ]
    cosines = torch.cosine_similarity(*vectors.chunk(2)).numpy()
    return world_measure.spearman([p.score for p in sample], cosines)


def test_models_know_every_word_and_start_below_word_overlap_which_the_teacher_is_above() -> None:
    sample, found = pairs("dev")[:280], {}
    lines = [line for (line,) in rows(WORLD / "world_sentences.tsv.gz")]
    for name, layers, width in (("world-encoder", 2, 128), ("world-teacher", 4, 192)):
        folder = ROOT / "data" / "models" / name
        config, tokenizer = (
            AutoConfig.from_pretrained(folder),
            AutoTokenizer.from_pretrained(folder),
        )
        assert (config.model_type, config.num_hidden_layers, config.hidden_size) == (
            "bert",
            layers,
            width,
        )
        with safe_open(folder / "model.safetensors", "pt") as weights:
            assert {weights.get_tensor(key).dtype for key in weights.keys()} == {torch.float16}  # noqa: SIM118
        assert "license: mit" in (folder / "README.md").read_text(encoding="utf-8")
        words = sorted({word for line in lines for word in line.split()})
        assert all(tokenizer.unk_token_id not in row for row in tokenizer(words)["input_ids"])
        assert max(map(len, tokenizer(sorted(lines, key=len)[-500:])["input_ids"])) <= 64
        found[name] = agreement(folder, sample)
    overlap = world_measure.spearman([p.score for p in sample], world_measure.word_overlap(sample))
    assert 0.1 < found["world-encoder"] < 0.4 < overlap < 0.8 < found["world-teacher"]
