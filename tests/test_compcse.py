"""CompCSE: the loss from its equation, every ablation of the paper, and refused inputs."""

import hashlib
import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from workbench.config import CompCSEConfig
from workbench.data import Sentences
from workbench.encoder import Encoder
from workbench.errors import DataError, SettingError
from workbench.methods.compcse import CompCSE
from workbench.methods.splitting import split_words, subsample

AGGREGATIONS = ["avg", "sum", "concat_halves", "concat_project", "concat_difference_project"]
SMALL = {
    "device": "cpu",
    "dropout": 0.0,
    "batch_size": 8,
    "eval_steps": 2,
    "max_steps": 4,
    "log_steps": 1,
}
CLAUSES = [
    "the cat sees a bird, and the old dog likes the park",
    "the dog chases a cat because the bird likes the dog",
    "a small bird",
]


def enlarge(part: nn.Module) -> None:
    with torch.no_grad():
        for parameter in part.parameters():
            if parameter.ndim == 2:
                parameter.mul_(10)


def named(sentences: list[str]) -> Sentences:
    return Sentences("tiny", sentences, "made here", "0")


def method_of(encoder: Path, seed: int = 0, **overrides: object) -> CompCSE:
    return CompCSE(
        CompCSEConfig.from_parameters("demo", seed, {**SMALL, "encoder": str(encoder), **overrides})
    )


@torch.no_grad()
def loss_by_hand(method: CompCSE, texts: list[str]) -> float:
    """Compute equation 1 with loops, from the texts, for any setting; in float64."""
    config = method.config

    def layer(vector: Tensor) -> Tensor:
        if method.head is None:
            return vector
        return torch.tanh(
            method.head.linear.weight.double() @ vector + method.head.linear.bias.double()
        )

    def vector_of(text: str) -> Tensor:
        vector = method.encoder(method.encoder.tokenize([text]))[0].double()
        return layer(vector) if config.mlp == "before" else vector

    def composed(text: str) -> Tensor:
        parts = [vector_of(part) for part in split_words(text, config.parts)]
        if config.aggregation == "avg":
            return sum(parts[1:], parts[0]) / len(parts)
        if config.aggregation == "sum":
            return sum(parts[1:], parts[0])
        if config.aggregation == "concat_halves":
            half = len(parts[0]) // 2
            return torch.cat([parts[0][:half], parts[1][half:]])
        extra = (
            [(parts[0] - parts[1]).abs()]
            if config.aggregation == "concat_difference_project"
            else []
        )
        assert method.projection is not None
        return method.projection.linear.weight.double() @ torch.cat([*parts, *extra])

    def side(text: str, compose: bool) -> Tensor:
        vector = composed(text) if compose else vector_of(text)
        return (layer(vector) if config.mlp == "after" else vector)[: config.subvector]

    anchors = [side(text, config.compose in ("anchor", "both")) for text in texts]
    positives = [side(text, config.compose in ("positive", "both")) for text in texts]
    total = 0.0
    for i, anchor in enumerate(anchors):
        cosines = [float(anchor @ other / (anchor.norm() * other.norm())) for other in positives]
        total -= math.log(
            math.exp(cosines[i] / config.temperature)
            / sum(math.exp(c / config.temperature) for c in cosines)
        )
    return total / len(texts)


SETTINGS = [
    *[{"aggregation": how} for how in AGGREGATIONS],
    {"aggregation": "concat_halves", "mlp": "before"},
    *[{"compose": which} for which in ("anchor", "both", "none")],
    {"parts": 3, "aggregation": "concat_project"},
    {"compose": "none", "aggregation": "concat_project"},
    {"subvector": 5, "mlp": "none", "compose": "anchor"},
]


@pytest.mark.parametrize("overrides", SETTINGS, ids=str)
def test_the_loss_is_the_equation_and_reaches_every_weight(
    spread_encoder: Path, sentences: Sentences, overrides: dict
):
    method = method_of(spread_encoder, temperature=0.3, **overrides).train()
    for part in (method.head, method.projection):
        if part is not None:
            enlarge(part)
    method.prepare(sentences)
    terms = method(method.collate([3, 0, 7, 12]))
    assert set(terms) == {"info_nce"}
    expected = loss_by_hand(method, [sentences.sentences[row] for row in (3, 0, 7, 12)])
    assert terms["info_nce"].item() == pytest.approx(expected, rel=2e-5)
    terms["info_nce"].backward()
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name


def token_rows(method: CompCSE) -> list[list[int]]:
    batch = method.composition.tokens.batch(range(len(method.composition.tokens)))
    return [
        ids[mask.bool()].tolist()
        for ids, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]


def test_halves_of_tokens_are_the_tokens_of_the_sentence(spread_encoder: Path):
    method = method_of(spread_encoder, partition="tokens")
    # "xyz" is three word pieces: only a cut between tokens can go through it.
    method.prepare(named(["cat xyz", "dog", "the red bird sees"]))
    ids = token_rows(method)
    assert len(ids) == 9
    cls, sep = method.encoder.tokenizer.cls_token_id, method.encoder.tokenizer.sep_token_id
    assert all(row[0] == cls and row[-1] == sep for row in ids)
    for number, sentence in enumerate(["cat xyz", "dog", "the red bird sees"]):
        whole, left, right = ([*row[1:-1]] for row in ids[3 * number : 3 * number + 3])
        assert [cls, *whole, sep] == method.encoder.tokenizer(sentence)["input_ids"]
        assert (left + right == whole and len(left) == len(whole) // 2) or (
            len(whole) == 1 and left == right == whole
        )


def test_halves_of_tokens_have_the_prompt_of_the_encoder(spread_encoder: Path, tmp_path: Path):
    start = Encoder.from_pretrained(spread_encoder, "mean", device="cpu")
    start.save(tmp_path / "start")
    (tmp_path / "start" / "encoder.json").unlink()  # as another author's folder
    file = tmp_path / "start" / "config_sentence_transformers.json"
    usage = {"prompts": {"sts": "red dog "}, "default_prompt_name": "sts"}
    file.write_text(json.dumps(json.loads(file.read_text()) | usage))
    method = method_of(tmp_path / "start", partition="tokens", pooling="mean", max_seq_length=7)
    method.prepare(named(["cat bird sees old park likes", "dog"]))
    whole, *halves = token_rows(method)[:3]
    plain = method.encoder.tokenizer("red dog cat bird sees old park likes")["input_ids"]
    assert whole == [*plain[:6], plain[-1]]
    assert [row[:3] for row in halves] == [plain[:3]] * 2
    assert [len(row) for row in halves] == [7, 7]


@pytest.mark.parametrize("partition", ["words", "tokens"])
def test_a_long_sentence_is_cut_at_the_limit_after_it_was_halved(
    spread_encoder: Path, partition: str
):
    method = method_of(spread_encoder, max_seq_length=7, partition=partition)
    method.prepare(
        named([" ".join(["cat", "dog", "bird", "park", "red", "old", "sees", "likes"]), "dog"])
    )
    assert [len(row) for row in token_rows(method)[:3]] == [7, 6, 6]
    method.prepare(named(["cat", " ", "the dog sees a bird", "dog", ""]))
    assert torch.isfinite(method(method.collate(range(5)))["info_nce"])


@pytest.mark.parametrize(
    ("how", "keep"), [("adjacent", False), ("overlapping", True), ("subsuming", True)]
)
def test_subsamples_are_further_rows_of_the_training_set(
    spread_encoder: Path, how: str, keep: bool
):
    method = method_of(spread_encoder, subsampling=how, keep_sentences=keep)
    data = named(CLAUSES)
    method.prepare(data)
    expected = subsample(CLAUSES, how)
    assert method.examples(data) == len(expected) + (3 if keep else 0)
    last = token_rows(method)[-3:]
    texts = [expected[-1].anchor, *expected[-1].parts]
    assert last == method.encoder.tokenizer(texts)["input_ids"]
    batch = method.collate(range(method.examples(data)))
    assert batch["tokens"]["input_ids"].shape[0] == 3 * method.examples(data)


def test_spans_of_the_user_are_trained_on(
    spread_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "spans.tsv"
    path.write_text("row\tleft\tright\n0\tthe cat\ta bird,\n2\ta small\tbird\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    method = method_of(spread_encoder, subsampling="spans", spans="spans.tsv")
    monkeypatch.undo()  # the notebook of a headless run is executed elsewhere
    method.prepare(named(CLAUSES))
    assert method.examples(named(CLAUSES)) == 5
    assert method.inputs() == {
        "spans": (f"file {path}", hashlib.sha256(path.read_bytes()).hexdigest())
    }
    path.write_text("row\tleft\tright\n7\tthe cat\ta bird\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: row is '7'"):
        method.prepare(named(CLAUSES))


def test_too_few_texts_and_too_many_coordinates_are_refused(spread_encoder: Path):
    with pytest.raises(
        SettingError, match=r"subvector is 17, but vectors of .* have 16 coordinates; set 1 to 16"
    ):
        method_of(spread_encoder, subvector=17)
    with pytest.raises(DataError, match="no sentence has two clauses to subsample"):
        method_of(spread_encoder, subsampling="subsuming").prepare(named(["the cat", "a dog"]))
    adjacent = method_of(spread_encoder, subsampling="adjacent", keep_sentences=False)
    with pytest.raises(DataError, match=r"only 1 text is subsampled; CompCSE needs at least 2"):
        adjacent.prepare(named([CLAUSES[0], CLAUSES[2]]))
