"""RankEncoder (Seonwoo et al. 2023): a sentence is described by how it ranks the sentences of a corpus."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.checkpoints import Reading, published_reading
from workbench.config import CONFIGS, RankEncoderConfig
from workbench.data import load_sentences
from workbench.encoder import Encoder, FixedEncoder, TokenRows, replace_encoder
from workbench.errors import EncoderError, RunError
from workbench.losses import cosine_matrix, info_nce, kept_pairs, rank_mse
from workbench.methods.base import Batch, ContrastiveMethod, gathered_views, training_sentences
from workbench.methods.rank_mixture import RankMixture
from workbench.methods.rank_targets import RankTargets, draw_corpus, read_corpus, write_corpus
from workbench.ranks import Corpus
from workbench.runs import is_finished, run_path
from workbench.teachers import Teacher, cached_embeddings, find_teacher, load_teacher


class RankEncoder(ContrastiveMethod):
    """l = max(lambda_train l_r, l_cl), l_r = mean of (u_i . u_j - cos(E2(x_i), E2(x_j)))^2 over kept pairs (eqs. 5, 6).

    u_i is the rank vector of x_i under the frozen E1, without dropout; cos is of two dropout views of E2, as in l_cl,
    which is SimCSE's loss, or, with pooling "mask", that of PromptBERT's two templates. At test the similarity is the
    mixture of eq. 7, with the corpus embedded again by E2; in training dev is measured of E2's unit rows alone.
    """

    config_class = RankEncoderConfig
    config: RankEncoderConfig

    def __init__(self, config: RankEncoderConfig) -> None:
        super().__init__(config)
        self.corpus: list[str] = []
        self.rank_inputs: dict[str, tuple[str, str]] = {}
        self._mixture: RankMixture | None = None
        self.encoder.backbone.register_load_state_dict_post_hook(self._drop_mixture)

    def load_start(self, **options: Any) -> Encoder:
        """Return E2: the setting `encoder`, sentences ended as E1's are; with start "base" a copy of E1, read as E1."""
        config = self.config
        if config.start == "base":
            name, reading_of_e1 = _find_e1(config)
            options["new_pooler"] = False  # E1's own layer
            return Encoder(*find_teacher(name, **reading_of_e1), **options)
        checkpoint, of_base = self.find_start(), published_reading(config.base)
        reading = checkpoint.read(config.pooling, config.template) or Reading("cls")
        if reading.template is not None and of_base is not None:
            reading = replace(reading, full_stop=of_base.full_stop, endings=of_base.endings)
        return Encoder(checkpoint, reading, **options)

    def prepare(self, data: Any) -> None:
        sentences = training_sentences(self, data, templates=True)
        self.read_ranks(data, sentences)
        # Both views have the same tokens, or with two templates those of the second come after the first's.
        self.tokens, second = self.encoder.token_rows(sentences), self.config.second_template
        if self.encoder.template is not None and second not in (None, self.encoder.template):
            self.tokens = TokenRows.joined([self.tokens, self.encoder.token_rows(sentences, template=second)])

    def read_ranks(self, data: Any, sentences: list[str]) -> None:
        """Draw the corpus and embed it and the sentences with E1, from the cache if possible: the targets."""
        config = self.config
        drawn_from = data if config.corpus is None else load_sentences(config.corpus)
        self.corpus = draw_corpus(drawn_from, config.corpus_size, config.corpus_seed)
        base = load_e1(config)
        self.rank_inputs = {"base": (base.source, base.checksum)}
        if config.corpus is not None:
            self.rank_inputs["corpus"] = (drawn_from.source, drawn_from.checksum)
        embedded = np.asarray(cached_embeddings(base, self.corpus, folder=config.cache), dtype=np.float32)
        corpus = Corpus(torch.from_numpy(embedded).to(self.encoder.device))
        embeddings = cached_embeddings(base, sentences, folder=config.cache)
        self.targets = RankTargets(embeddings, corpus, similarity=config.similarity, stored=config.ranks == "stored")
        self._mixture = None

    def inputs(self) -> dict[str, tuple[str, str]]:
        return self.rank_inputs

    def collate(self, rows: Sequence[int]) -> Batch:
        second = np.asarray(rows) + len(self.tokens) - len(self.targets.rows)
        tokens = self.token_batch(self.tokens, np.concatenate([rows, second]))
        return {"tokens": tokens, "base": self.targets.take(rows)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        terms = self.guess_words(batch["tokens"])
        scores = cosine_matrix(*gathered_views(self.embed(batch["tokens"]), self.head))
        contrastive = info_nce(scores, temperature=self.config.temperature)
        target = self.targets.similarities(batch["base"]).to(scores.device)
        return terms | self.rank_terms(contrastive, scores, target)

    def rank_terms(
        self, contrastive: Float[Tensor, ""], scores: Float[Tensor, "n n"], target: Float[Tensor, "n n"]
    ) -> dict[str, Tensor]:
        """Return the contrastive loss and the rank loss of the scores, combined as the settings say (eq. 5)."""
        self._drop_mixture()  # this step changes the weights
        config = self.config
        distilled = config.rank_weight * rank_mse(scores, target, lower=config.lower, upper=config.upper)
        kept = kept_pairs(target, lower=config.lower, upper=config.upper).float().mean()
        larger = (distilled > contrastive).float()
        self.observe(kept_pairs=kept, rank_larger=larger, info_nce=contrastive, rank_mse=distilled)
        if config.combination == "max":
            return {"hinge": torch.maximum(contrastive, distilled)}
        return {"info_nce": contrastive, "rank_mse": distilled}

    def encode(
        self, sentences: list[str] | str, batch_size: int = 64, *, normalize_embeddings: bool = True
    ) -> Float[Tensor, "*n w"]:
        """Return unit rows whose dot product is eq. 7: E2's vector and its rank vector, d + n numbers per sentence.

        `score` computes the same similarity without vectors as wide as the corpus; for the closed form it differs a
        little: see RankMixture. Raises RunError before `prepare` or `restore`, when there is no corpus. With
        normalize_embeddings=False E2's vectors as pooled.
        """
        if self.config.inference_weight == 0 or not normalize_embeddings:
            return super().encode(sentences, batch_size, normalize_embeddings=normalize_embeddings)
        return self.mixture().encode(sentences, batch_size)

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        """Return eq. 7 for each pair."""
        if self.config.inference_weight == 0:
            return super().score(sentence1, sentence2)
        return self.mixture().score(sentence1, sentence2)

    def mixture(self) -> RankMixture:
        """Return eq. 7 under the present weights; the corpus is embedded again after a training step or a load."""
        if not self.corpus:
            raise RunError("RankEncoder has no corpus before `prepare` or `restore`; use `encode_plain`")
        if self._mixture is None:
            weight, how, device = self.config.inference_weight, self.config.similarity, self.encoder.device
            self._mixture = RankMixture(self.encode_plain, self.corpus, weight=weight, similarity=how, device=device)
        return self._mixture

    def _drop_mixture(self, *_: Any) -> None:
        self._mixture = None

    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> None:
        """Save E2 as any encoder, whose cosine is eq. 7 without the rank part, with the corpus for `restore`."""
        share, name = self.config.inference_weight, type(self).__name__
        note = (
            f"{name}'s own similarity is {1 - share:g} x the cosine and {share:g} x the rank similarity over the "
            f"{len(self.corpus)} sentences of corpus.json.gz; `workbench.{name}` restores both."
        )
        card = dict(card or {})
        card["description"] = f"{card.get('description', '')} {note}".strip()
        with replace_encoder(folder) as fresh:
            super().save(fresh, card=card)
            write_corpus(fresh, self.corpus)

    def restore(self, folder: str | Path) -> None:
        """Load weights and corpus. Raises EncoderError if one is missing."""
        corpus = read_corpus(Path(folder))
        super().restore(folder)
        self.corpus = corpus


def load_e1(config: RankEncoderConfig) -> Teacher | FixedEncoder:
    """Load E1, frozen. Raises EncoderError if it is missing or unfinished, or if its pooling is unknown."""
    name, reading = _find_e1(config)
    options = {"precision": config.precision, "device": config.device}
    return load_teacher(name, max_seq_length=config.base_max_seq_length, **reading, **options)


def _find_e1(config: RankEncoderConfig) -> tuple[str, dict[str, Any]]:
    """Return E1's name, the folder if it is a run of a method, and how the settings read it."""
    name = config.base
    if name in CONFIGS:
        if config.base_root is None:
            raise EncoderError(f"E1 is a run of {name!r}: set base_root to the folder of runs, or base to the run's")
        folder = run_path(CONFIGS[name].from_parameters(config.base_profile, config.seed), config.base_root)
        if not is_finished(folder):
            command = f"workbench run {name} --profile {config.base_profile} --seed {config.seed}"
            problem = f"E1 is the run {folder}, which is missing or not finished"
            raise EncoderError(f"{problem}; run `{command} --runs {config.base_root}`")
        name = str(folder)
    revision = config.revisions.get(config.base)
    return name, {"pooling": config.base_pooling, "template": config.base_template, "revision": revision}
