"""RankEncoder (Seonwoo et al. 2023): a sentence is described by how it ranks the sentences of a corpus."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from workbench.config import CONFIGS, RankEncoderConfig, TrainingConfig
from workbench.data import load_sentences
from workbench.encoder import Encoder, Reading, TokenRows, published_reading, replacing, weights_checksum
from workbench.errors import EncoderError, RunError
from workbench.losses import cosine_matrix, info_nce, kept_pairs, rank_mse
from workbench.methods.protocol import Batch, ContrastiveMethod, gathered_views, training_sentences
from workbench.methods.rankencoder._corpus import draw_corpus as draw_corpus, read_corpus as read_corpus, write_corpus
from workbench.methods.rankencoder._mixture import (
    RankMixture as RankMixture,
    neighbour_table as neighbour_table,
    shared_neighbours as shared_neighbours,
)
from workbench.methods.rankencoder._targets import RankTargets as RankTargets
from workbench.ranks import Corpus
from workbench.runs import is_finished, run_path
from workbench.teachers import cached_embeddings, find_teacher, load_teacher


class RankEncoder(ContrastiveMethod):
    """l = max(lambda_train l_r, l_cl), l_r = mean of (u_i . u_j - cos(E2(x_i), E2(x_j)))^2 over kept pairs (eqs. 5, 6).

    u_i is the rank vector of x_i under the frozen E1, without dropout; cos is of two dropout views of E2, as in l_cl,
    which is SimCSE's loss, or, with pooling "mask", that of PromptBERT's two templates. At test the similarity is the
    mixture of eq. 7, with the corpus embedded again by E2. In training dev is measured of E2's unit rows, as in the
    released trainers: embedding the corpus at every measurement would cost more than dev itself.
    """

    config_class: ClassVar[type[TrainingConfig]] = RankEncoderConfig
    config: RankEncoderConfig

    def __init__(self, config: RankEncoderConfig) -> None:
        super().__init__(config)
        self.corpus: list[str] = []
        self._inputs: dict[str, tuple[str, str]] = {}
        self._observed: dict[str, Tensor] = {}
        self._steps = 0
        self._mixture: RankMixture | None = None
        self.encoder.backbone.register_load_state_dict_post_hook(self._weights_changed)

    def starting_encoder(self, **options: Any) -> Encoder:
        """E2: the setting `encoder`, its sentences ended as E1's are; with start "base" a copy of E1, read as E1 is."""
        config = self.config
        pooling, revision = options.pop("pooling"), options.pop("revision")
        if config.start == "base":
            name, read = _e1(config)
            return Encoder.load(*find_teacher(name, **read), **options)
        checkpoint = self.starting_checkpoint(revision)
        reading, of_base = checkpoint.read(pooling, config.template) or Reading("cls"), published_reading(config.base)
        if reading.template is not None and of_base is not None:
            reading = replace(reading, full_stop=of_base.full_stop, endings=of_base.endings)
        return Encoder.load(checkpoint, reading, **options)

    def prepare(self, data: Any) -> None:
        """Draws the corpus, embeds it and the training sentences with E1 (from the cache where it can), tokenises.

        Raises DataError for anything but plain sentences, or fewer than two for training or corpus, EncoderError for
        an E1 that is missing.
        """
        sentences = training_sentences(self, data, templates=True)
        self.read_ranks(data, sentences)
        self.tokens = self._tokenized(sentences)

    def read_ranks(self, data: Any, sentences: list[str]) -> None:
        """The corpus, and how similarly E1 makes the sentences rank it."""
        config = self.config
        of_data = {name: at for name, at in config.revisions.items() if name not in (config.encoder, config.base)}
        drawn_from = data if config.corpus is None else load_sentences(config.corpus, revisions=of_data)
        self.corpus = draw_corpus(drawn_from, config.corpus_size, config.corpus_seed)
        base = load_e1(config)
        self._inputs = {"base": (base.source, weights_checksum(base))}
        if config.corpus is not None:
            self._inputs["corpus"] = (drawn_from.source, drawn_from.checksum)
        embedded = np.asarray(cached_embeddings(base, self.corpus, folder=config.cache), dtype=np.float32)
        seen = Corpus(torch.from_numpy(embedded).to(self.encoder.device))
        trained_on = cached_embeddings(base, sentences, folder=config.cache)
        stored = config.ranks == "stored"
        self.targets = RankTargets(trained_on, seen, similarity=config.similarity, stored=stored)
        self._mixture = None

    def inputs(self) -> dict[str, tuple[str, str]]:
        return self._inputs

    def _tokenized(self, sentences: list[str]) -> TokenRows:
        """The tokens of each view, one behind the other: one for both, or with two templates one each."""
        encoder, second = self.encoder, self.config.second_template
        rows = encoder.token_rows(sentences)
        if encoder.template is None or second in (None, encoder.template):
            return rows
        return TokenRows.joined([rows, encoder.token_rows(sentences, template=second)])

    def collate(self, rows: Sequence[int]) -> Batch:
        """Both views' tokens, and E1's rows of these sentences."""
        second = np.asarray(rows) + len(self.tokens) - len(self.targets.rows)
        return {"tokens": self.tokens.batch(np.concatenate([rows, second])), "base": self.targets.of(rows)}

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        words = self.guess_words(batch["tokens"])
        scores = cosine_matrix(*gathered_views(self.embed(batch["tokens"]), self.head))
        contrastive = info_nce(scores, temperature=self.config.temperature)
        target = self.targets.similarities(batch["base"]).to(scores.device)
        return words | self.rank_terms(contrastive, scores, target)

    def rank_terms(
        self, contrastive: Float[Tensor, ""], scores: Float[Tensor, "n n"], target: Float[Tensor, "n n"]
    ) -> dict[str, Tensor]:
        """The contrastive loss with the rank loss of the scores, combined as the settings say (eq. 5)."""
        self._weights_changed()  # they will have, when this step is taken
        config = self.config
        distilled = config.rank_weight * rank_mse(scores, target, lower=config.lower, upper=config.upper)
        kept = kept_pairs(target, lower=config.lower, upper=config.upper).float().mean()
        larger = (distilled > contrastive).float()
        self._observe(kept_pairs=kept, rank_larger=larger, info_nce=contrastive, rank_mse=distilled)
        if config.combination == "max":
            return {"hinge": torch.maximum(contrastive, distilled)}
        return {"info_nce": contrastive, "rank_mse": distilled}

    def _observe(self, **values: Tensor) -> None:
        """Sums on the device: reading a value every step would wait for it."""
        for name, value in values.items():
            self._observed[name] = self._observed.get(name, 0.0) + value.detach()
        self._steps += 1

    def observations(self) -> dict[str, float]:
        """Means since last asked: share of pairs kept, share of steps in which lambda l_r > l_cl, l_cl, lambda l_r."""
        found = {name: float(value) / self._steps for name, value in self._observed.items()}
        self._observed, self._steps = {}, 0
        return found

    def encode(self, sentences: list[str] | str, batch_size: int = 64) -> Float[Tensor, "*n w"]:
        """Unit rows whose dot product is eq. 7: E2's vector and the corpus in its eyes, d + n numbers a sentence.

        `score` gives the same similarity without vectors as wide as the corpus; for the closed form it differs a
        little: see RankMixture. Raises RunError while there is no corpus, before `prepare` or `restore`.
        """
        if self.config.inference_weight == 0:
            return self.encode_plain(sentences, batch_size)
        return self.mixture(batch_size).encode(sentences, batch_size)

    def score(self, sentence1: list[str], sentence2: list[str]) -> np.ndarray:
        """Eq. 7 of each pair."""
        if self.config.inference_weight == 0:
            return super().score(sentence1, sentence2)
        return self.mixture().score(sentence1, sentence2)

    def mixture(self, batch_size: int = 64) -> RankMixture:
        """Eq. 7 under the present weights. The corpus is embedded once, and again after a training step or a load."""
        if not self.corpus:
            raise RunError("RankEncoder has nothing to rank against before `prepare` or `restore`; see `encode_plain`")
        if self._mixture is None:
            self._mixture = RankMixture(
                self.encode_plain,
                self.corpus,
                weight=self.config.inference_weight,
                similarity=self.config.similarity,
                batch_size=batch_size,
                device=self.encoder.device,
            )
        return self._mixture

    def _weights_changed(self, *_: Any) -> None:
        self._mixture = None

    def save(self, folder: str | Path, *, card: dict[str, Any] | None = None) -> None:
        """E2 as any encoder, whose cosine is eq. 7 without the rank part; the corpus lies beside it for `restore`."""
        share = self.config.inference_weight
        name = type(self).__name__
        note = (
            f"{name}'s own similarity is {1 - share:g} x the cosine and {share:g} x the rank similarity over the "
            f"{len(self.corpus)} sentences of corpus.json.gz; `workbench.{name}` restores both."
        )
        card = dict(card or {})
        card["description"] = f"{card.get('description', '')} {note}".strip()
        with replacing(Path(folder)) as fresh:
            super().save(fresh, card=card)
            write_corpus(fresh, self.corpus)

    def restore(self, folder: str | Path) -> None:
        """Takes back weights and corpus. Raises EncoderError without either."""
        corpus = read_corpus(Path(folder))
        super().restore(folder)
        self.corpus = corpus


def load_e1(config: RankEncoderConfig) -> Encoder:
    """E1, frozen. EncoderError when it is missing, unfinished, or does not say how it is read."""
    name, read = _e1(config)
    hardware = {"precision": config.precision, "device": config.device}
    return load_teacher(name, max_tokens=config.base_max_tokens, **read, **hardware)


def _e1(config: RankEncoderConfig) -> tuple[str, dict[str, Any]]:
    """E1 by name, a run of a method by its folder, and how the settings want it read."""
    name = config.base
    if name in CONFIGS:
        settings = CONFIGS[name].from_parameters(config.base_profile, config.seed)
        if config.base_root is None:
            raise EncoderError(
                f"E1 is a run of {name!r}: say where runs are (base_root), or name the run's folder (base)"
            )
        folder = run_path(settings, config.base_root)
        if not is_finished(folder):
            raise EncoderError(
                f"E1 is the run {folder}, which is not there or not finished; make it first: `workbench run {name} "
                f"--profile {config.base_profile} --seed {config.seed} --runs {config.base_root}`"
            )
        name = str(folder)
    revision = config.revisions.get(config.base)
    return name, {"pooling": config.base_pooling, "template": config.base_template, "revision": revision}
