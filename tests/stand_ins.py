"""Small local things under the names of large ones: checkpoints in a hub cache, data sets in a local data root.

Weights and sentences are random; architecture, width, kind of tokenizer, columns and labels are those of the real ones.
"""

import random
from collections.abc import Iterable
from pathlib import Path

import pandas as pd
import torch
from tiny_checkpoints import WORDS
from transformers import BertConfig, BertModel, BertTokenizer, RobertaConfig, RobertaModel, RobertaTokenizer

from workbench.checkpoints import _CONVERTED
from workbench.config import BUNDLED_MODELS, CONFIGS, BaseConfig, TrainingConfig
from workbench.data import CATALOGUE, DataSet, sets_of as sets_of_task

CHINESE = "今天天气很好我们去公园看书他喜欢吃红色的水果不"
_COMMIT = "0" * 40
_ROWS = {"sentences": 320, "pairs": 12, "triples": 24, "labelled": 48}  # half of 48 is enough for SentEval's classifier


def hub_cache(home: Path, names: Iterable[str]) -> None:
    """Fills the hub's cache under `home` (HF_HOME) with a stand-in for each of these hub ids."""
    for name in names:
        kind = "roberta" if "roberta" in name and "chinese" not in name else "bert"
        width = 1024 if "large" in name else 768
        built = home / "built" / f"{kind}-{width}"
        if not built.is_dir():
            _checkpoint(built, kind, width)
        root = home / "hub" / f"models--{name.replace('/', '--')}"
        snapshot = root / "snapshots" / _COMMIT
        snapshot.mkdir(parents=True)
        for file in built.iterdir():
            (snapshot / file.name).symlink_to(file)
        for revision in {"main", _CONVERTED.get(name, "main")}:
            (root / "refs" / revision).parent.mkdir(parents=True, exist_ok=True)
            (root / "refs" / revision).write_text(_COMMIT, encoding="utf-8")


def _checkpoint(folder: Path, kind: str, width: int) -> None:
    """One layer of the real width, with random weights, and a tokenizer of the real kind that knows few pieces."""
    torch.manual_seed(0)
    shape = {"hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    if kind == "bert":
        letters = [chr(code) for code in range(33, 127)]
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *letters, *(f"##{c}" for c in letters)]
        vocabulary = {piece: place for place, piece in enumerate(dict.fromkeys([*pieces, *CHINESE]))}
        tokenizer = BertTokenizer(vocab=vocabulary, model_max_length=512)
        config = BertConfig(vocab_size=len(vocabulary), max_position_embeddings=512, **shape)
        BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    else:
        from tokenizers.pre_tokenizers import ByteLevel

        pieces = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "<mask>"]
        vocabulary = {piece: place for place, piece in enumerate(pieces)}
        tokenizer = RobertaTokenizer(vocab=vocabulary, merges=[], model_max_length=512)
        special = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "type_vocab_size": 1}
        config = RobertaConfig(vocab_size=len(vocabulary), max_position_embeddings=514, **special, **shape)
        RobertaModel(config, add_pooling_layer=False).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def data_root(root: Path, names: Iterable[str]) -> None:
    """Writes a local data root (WORKBENCH_DATA) with a stand-in for each of these sets that is not bundled."""
    for name in names:
        entry = CATALOGUE[name]
        if not entry.bundled:
            for file in entry.files:
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                pd.DataFrame(_columns(entry)).to_csv(root / file, sep="\t", index=False)


def _columns(entry: DataSet) -> dict[str, list[str]]:
    draw = random.Random(entry.name)
    count = max(_ROWS[entry.kind], 12 * len(entry.classes) if entry.kind == "labelled" else 0)  # ten folds
    words = list(CHINESE) if entry.name.startswith("zh-") else WORDS[:-1]
    space = "" if entry.name.startswith("zh-") else " "

    def sentence() -> str:
        return space.join(draw.choices(words, k=draw.randint(2, 4)))

    columns: dict[str, list[str]] = {}
    for role, column in entry.roles.items():
        if role in ("score", "label"):
            columns[column] = [_label(entry, row) for row in range(count)]
        elif role == "subset":
            columns[column] = [f"part{row % 2}" for row in range(count)]
        elif role == "sentence":  # of clauses, which CompCSE's subsampling cuts at
            columns[column] = [
                f"when {sentence()}, {sentence()}, because {sentence()} and {sentence()}." for _ in range(count)
            ]
        elif role == "sentence1" and entry.name.startswith("sts"):  # as in STS, some stand in five pairs, some in one
            columns[column] = [text for _ in range(count // 12) for text in [sentence()] * 5 + [sentence()] * 7][:count]
        else:
            columns[column] = [sentence() for _ in range(count)]
    for name in entry.ids:
        columns.setdefault(name, [str(row) for row in range(count)])
    return columns


def _label(entry: DataSet, row: int) -> str:
    if entry.classes:
        return entry.classes[row % len(entry.classes)]
    low, high = entry.scale or (0.0, 5.0)
    return str(row % 2) if high == 1 else f"{low + (high - low) * (row % 11) / 10:.2f}"


def encoders_of(config: TrainingConfig) -> set[str]:
    """The hub ids that a run of `config` loads, and the run that is its E1."""
    names = {config.encoder, *config.checkpoints, *getattr(config, "teachers", []), getattr(config, "base", "")}
    found = {name for name in names if name and name not in BUNDLED_MODELS and name not in CONFIGS}
    return found.union(*(encoders_of(base) for base in _base_of(config)))


def sets_of(config: TrainingConfig | BaseConfig) -> set[str]:
    """The data sets that a run of `config` reads, and the run that is its E1."""
    named = [name for suite in config.suites for name in sets_of_task(suite)]
    if isinstance(config, BaseConfig):
        return {*named, *([config.fit_on] if config.kind in ("whitening", "tfidf") else [])}
    return {config.train, config.dev, *named}.union(*(sets_of(base) for base in _base_of(config)))


def _base_of(config: TrainingConfig) -> list[TrainingConfig]:
    """The settings of the run that is E1, where a method names it."""
    method = getattr(config, "base", "")
    return [CONFIGS[method].from_parameters(config.base_profile)] if method in CONFIGS else []
