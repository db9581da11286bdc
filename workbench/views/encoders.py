"""Encoders by name: their labels, the unit vectors of sentences, and the scores of pairs."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from workbench.config import BaselineConfig
from workbench.data import Pairs
from workbench.errors import RunError
from workbench.files import AnyPath, Facts, as_list, cache_folder, checksum_of_name, remove_path
from workbench.runs import Run, encoder_name, held_lock, run_path
from workbench.views._style import problem_html
from workbench.words import words_of

Encoders = Mapping[str, Any] | Sequence[Any] | None  # as `Ask` takes them
Strings = Sequence[str]
WORDS = "word-overlap"  # the name of `WordOverlap`, where an encoder can be named


def label_encoders(encoders: Encoders) -> Facts:
    """Return label -> encoder; those of a list get the last telling part of their path.

    Equal labels are numbered from 2 on."""
    if isinstance(encoders, Mapping):
        return {str(label): source for label, source in encoders.items()}
    labelled = {}
    for source in as_list("english-encoder" if encoders is None else encoders):
        label = name = _name_of(source)
        number = 2
        while label in labelled:
            label = f"{name} {number}"
            number += 1
        labelled[label] = source
    return labelled


def _name_of(source: Any) -> str:
    path = getattr(source, "path", source)
    if not isinstance(path, AnyPath):
        return getattr(source, "__name__", type(source).__name__)
    return encoder_name(path)


class WordOverlap:
    """A baseline without an encoder: the cosine of the sets of words of two sentences.

    Words are hashed to 8,192 numbers."""

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import HashingVectorizer

        hashing: Any = HashingVectorizer(
            n_features=2**13,
            binary=True,
            alternate_sign=False,
            analyzer=words_of,  # pyright: ignore[reportArgumentType] - a function is allowed
        )
        # Hashing needs no fit, so a new sentence costs only itself.
        self._words = hashing.transform

    def encode(self, sentences: Strings) -> ndarray:
        return self._words(sentences).toarray()

    def score(self, sentence1: Strings, sentence2: Strings) -> ndarray:
        # Rows have length 1, so the sum of products is the cosine.
        common = self._words(sentence1).multiply(self._words(sentence2))
        # Rounded: equal cosines of texts of other lengths would differ in the last bit.
        return np.asarray(common.sum(axis=1)).ravel().round(12)


class CachedEncoder:
    """Unit vectors of sentences under one encoder, which is loaded on first use.

    Each sentence is encoded once."""

    def __init__(self, label: str, source: Any) -> None:
        self.label = label
        self.source = source
        self._rows = {}

    @cached_property
    def model(self) -> Any:
        """Load the encoder in fp32: bf16 may not resolve the effect of a word.

        Raises EncoderError or RunError if it cannot be read."""
        if self.source == WORDS:
            return WordOverlap()
        # It loads torch, which views of finished runs do without.
        from workbench.evaluation import load_baseline

        # A run is read as trained, a start as it was loaded before training.
        encoder = self.source
        if isinstance(encoder, Run):
            encoder = model_of(encoder)
        elif isinstance(encoder, StartingEncoder):
            encoder = encoder.load()
        if not isinstance(encoder, AnyPath):
            return encoder
        return load_baseline(BaselineConfig(encoder=str(encoder), precision="fp32"))

    def __call__(self, sentences: Strings) -> ndarray:
        """Return [n, d], float64."""
        from workbench.encoder import unit_rows

        # An edit in a view changes one sentence of many.
        new = [sentence for sentence in dict.fromkeys(sentences) if sentence not in self._rows]
        if new:
            # A function from sentences to vectors is its own `encode`.
            encode = getattr(self.model, "encode", self.model)
            rows, _ = unit_rows(encode, new, [])
            self._rows.update(zip(new, rows, strict=True))
        return np.stack([self._rows[sentence] for sentence in sentences])

    def cosines(self, first: Strings, second: Strings) -> ndarray:
        """Return the cosine of each pair of sentences, [n]."""
        # Word overlap has 8,192 columns and a mixture one for each sentence of its corpus, of which
        # 10,000 targets are gigabytes.
        if hasattr(self.model, "score"):
            return self.model.score(first, second)
        return np.einsum("nd,nd->n", self(first), self(second))

    def leads(self, texts: Sequence[Strings]) -> ndarray:
        """Return the cosine of each query and target, minus that of its second target, if any."""
        query, target, *other = zip(*texts, strict=True)
        # Above 0: the first target is nearer to the query than the second.
        return self.cosines(query, target) - sum(self.cosines(query, one) for one in other)


def wrap_encoders(encoders: Encoders) -> list[CachedEncoder]:
    """Return the `CachedEncoder` of each source; none is loaded yet."""
    return [CachedEncoder(label, source) for label, source in label_encoders(encoders).items()]


def usable_encoders(
    encoders: Sequence[CachedEncoder], sentences: Strings
) -> tuple[list[CachedEncoder], str]:
    """Return the encoders that can encode the sentences, and the problems of the others as HTML."""
    usable = []
    problems = ""
    for encoder in encoders:
        try:
            # What is encoded here is kept, so the check costs nothing.
            encoder.cosines(sentences, sentences)
            usable.append(encoder)
        except Exception as problem:  # a user's own encoder may raise anything
            problems += problem_html(problem, encoder.label)
    return usable, problems


@dataclass(frozen=True)
class StartingEncoder:
    """The encoder that the run in a folder began with, or was evaluated for."""

    path: Path

    def load(self, *, trained: bool = False) -> Any:
        """Return the `Encoder`, loaded as the run did; of a trained run its method, as it ended.

        Raises RunError if an evaluated encoder has changed since."""
        from workbench.evaluation import load_baseline
        from workbench.methods import METHODS

        # Not as the run computed: here one sentence is compared with itself without a word.
        update: Facts = {"precision": "fp32", "device": "auto"}
        folder = self.path / "encoder"
        run = Run(self.path)
        facts = run.facts()
        if trained and getattr(run.config, "start", "") != "base":
            # In the place of its start, which may be gone.
            update |= {"encoder": str(folder), "revisions": {}}
        config: Any = run.config.model_copy(update=update)
        if config.method in METHODS:
            method = METHODS[config.method](config)
            if not trained:
                return method.encoder
            method.restore(folder)
            return method
        model = load_baseline(config)
        # The source has the commit of a repository.
        source = getattr(getattr(model, "encoder", model), "source", None)
        is_same = facts.get("source") in (None, source)
        if recorded := facts.get("contents", {}).get(config.encoder):  # of a folder
            is_same &= recorded == checksum_of_name(config.encoder)
        if not is_same:
            raise RunError(
                f"{self.path}: {config.encoder} has changed since, or an earlier version evaluated "
                "it; restore it, or evaluate it again"
            )
        return model


def model_of(run: Run) -> Any:
    """Return what scores new data as it scored those of its run."""
    config = run.config
    if isinstance(config, BaselineConfig):
        return StartingEncoder(run.path).load()
    # A mixture with ranks, or a cross-encoder, is more than its encoder.
    kind = getattr(config, "architecture", "")
    if kind == "cross-encoder" or getattr(config, "inference_weight", 0):
        return StartingEncoder(run.path).load(trained=True)
    return run.path / "encoder"


def scores_of(source: Any, pairs: Pairs, name: str | None, columns: Any) -> Any:
    """Return scores of the pairs under an encoder; other sources are returned as they are.

    name, columns: Of the pairs, if they are a set or a file: then the scores are cached."""
    is_name = isinstance(source, AnyPath)
    if not (is_name or callable(source) or hasattr(source, "encode")):
        return source
    # As above: torch is loaded when an encoder is.
    from workbench.evaluation import evaluate, evaluate_model

    if is_name and name and source != WORDS:
        # "fp32" is named: under "auto" the cache may have scores of an earlier version in bf16.
        config = BaselineConfig(
            encoder=str(source), suites=[name], columns=columns or {}, precision="fp32"
        )
        root = cache_folder() / "scores"
        path = run_path(config, root)
        for _ in range(2):
            with suppress(OSError, RunError):
                return evaluate_model(config, root).scores()
            # A damaged entry is computed again.
            with suppress(OSError):
                if not held_lock(path):
                    remove_path(path)
        # The cache cannot be written, or another process is writing this entry.
    return evaluate(CachedEncoder("", source).model, {pairs.name: pairs}).scores
