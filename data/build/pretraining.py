"""Shared code of the model builders: the tokenizer, masked language modelling, the folder on
disk."""

from __future__ import annotations

import gzip
import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    BertTokenizer,
    PreTrainedTokenizerBase,
)

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD = SPECIAL.index("[PAD]")
MAX_TOKENS = 64


def read_lines(path: Path) -> list[str]:
    """Return the sentences of a one-column file."""
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
        return [line.rstrip("\n") for line in file][1:]


def train_tokenizer(lines: Sequence[str], folder: Path, *, pieces: int) -> None:
    """Train a word-piece vocabulary and write it to `folder`.

    The trainer breaks ties differently from run to run, so this is done once and the result is kept
    under version control: a model only fits the vocabulary it was trained with."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(
        lines,
        trainers.WordPieceTrainer(
            vocab_size=pieces, special_tokens=list(SPECIAL), show_progress=False
        ),
    )
    vocabulary = tokenizer.get_vocab()
    sep, cls = (("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    tokenizer.post_processor = processors.BertProcessing(sep, cls)
    fast = BertTokenizer(tokenizer_object=tokenizer, vocab=vocabulary, model_max_length=MAX_TOKENS)
    fast.save_pretrained(folder)


def load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Load the frozen tokenizer of `folder`; refuse one without its vocabulary."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if len(tokenizer) <= len(SPECIAL):
        raise ValueError(
            f"{folder}/tokenizer.json holds no vocabulary; restore it or pass --new-tokenizer"
        )
    return tokenizer


def tokenizer_for(out: Path, bundled: Path, *, is_new: bool) -> PreTrainedTokenizerBase:
    """Return the tokenizer of a build: one that was just trained into `out`, or the frozen one,
    which is copied there."""
    tokenizer = load_tokenizer(out if is_new else bundled)
    if out != bundled:
        tokenizer.save_pretrained(out)
    return tokenizer


def bert_config(
    tokenizer: PreTrainedTokenizerBase, *, layers: int, width: int, heads: int
) -> BertConfig:
    """Return the config of a small BERT over the vocabulary of `tokenizer`."""
    return BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=MAX_TOKENS,
        pad_token_id=PAD,
    )


def batches(
    ids: Sequence[Sequence[int]], size: int, generator: torch.Generator
) -> Iterator[list[int]]:
    """Yield the rows of one batch after the other, without end: shuffled, but of similar length to
    limit padding."""
    chunk = 20 * size
    if len(ids) < chunk:
        raise ValueError(f"{len(ids)} sentences; batches of similar length need {chunk} or more")
    while True:
        order = torch.randperm(len(ids), generator=generator).tolist()
        for start in range(0, len(order) - chunk + 1, chunk):
            rows = sorted(order[start : start + chunk], key=lambda row: len(ids[row]))
            for index in torch.randperm(20, generator=generator).tolist():
                yield rows[index * size : (index + 1) * size]


def pad(ids: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return (token ids, attention mask) of a ragged batch."""
    longest = max(len(row) for row in ids)
    tokens = torch.tensor([[*row, *[PAD] * (longest - len(row))] for row in ids])
    return tokens, (tokens != PAD).long()


def mask_tokens(
    tokens: Tensor, tokenizer: PreTrainedTokenizerBase, rate: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Return (input, labels) for masked language modelling: 80 % of chosen tokens hidden, 10 %
    replaced, 10 % kept."""
    special = torch.isin(tokens, torch.tensor(tokenizer.all_special_ids))
    chosen = (torch.rand(tokens.shape, generator=generator) < rate) & ~special
    fate = torch.rand(tokens.shape, generator=generator)
    random_tokens = torch.randint(len(SPECIAL), len(tokenizer), tokens.shape, generator=generator)
    hidden = torch.where(chosen & (fate < 0.8), torch.tensor(tokenizer.mask_token_id), tokens)
    hidden = torch.where(chosen & (fate >= 0.9), random_tokens, hidden)
    return hidden, torch.where(chosen, tokens, torch.tensor(-100))


def train(
    model: torch.nn.Module,
    loss_of_step: Callable[[int], Tensor],
    *,
    steps: int,
    learning_rate: float,
    name: str,
    stop: int | None = None,
) -> None:
    """Train with AdamW, a tenth of warm-up and linear decay; print the loss at intervals, end
    before step `stop`."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=learning_rate, weight_decay=0.01, fused=True
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (0.1 * steps), (steps - step) / (0.9 * steps))
    )
    model.train()
    started, running = time.perf_counter(), math.nan
    for step in range(steps if stop is None else stop):
        loss = loss_of_step(step)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        running = loss.item() if math.isnan(running) else 0.99 * running + 0.01 * loss.item()
        if (step + 1) % 250 == 0:
            print(
                f"{name} step {step + 1}/{steps} loss {running:.3f} "
                f"{time.perf_counter() - started:.0f} s",
                flush=True,
            )


def masked_language_model(
    lines: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    config: BertConfig,
    *,
    steps: int,
    batch_size: int,
    learning_rate: float,
    mask_rate: float,
    seed: int,
) -> BertModel:
    """Return a BERT trained from scratch on `lines` by masked language modelling."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = BertForMaskedLM(config)
    ids: list[list[int]] = tokenizer(list(lines))["input_ids"]  # type: ignore[assignment]
    order = batches(ids, batch_size, generator)

    def loss_of_step(_: int) -> Tensor:
        tokens, attention = pad([ids[row] for row in next(order)])
        hidden, labels = mask_tokens(tokens, tokenizer, mask_rate, generator)
        return model(input_ids=hidden, attention_mask=attention, labels=labels).loss

    train(model, loss_of_step, steps=steps, learning_rate=learning_rate, name="masked words")
    return model.bert.eval()


def save(model: BertModel, folder: Path, card: str) -> None:
    """Write float16 weights, without a pooler, and the model card, next to the tokenizer."""
    bare = BertModel(model.config, add_pooling_layer=False)
    bare.load_state_dict(
        {
            name: weight
            for name, weight in model.state_dict().items()
            if not name.startswith("pooler.")
        }
    )
    bare.half().save_pretrained(folder)
    (folder / "README.md").write_text(card, encoding="utf-8")
    size = (folder / "model.safetensors").stat().st_size
    print(f"{folder}: {sum(p.numel() for p in bare.parameters()):,} weights, {size / 1e6:.2f} MB")
