"""What RankEncoder and mixed share: a start that may be E1, and rank similarity at test."""

from dataclasses import replace
from typing import Any

from numpy import ndarray

from workbench.checkpoints import published_spec
from workbench.config import RankEncoderConfig
from workbench.data import Sentences
from workbench.encoder import Card, Encoder, replace_encoder
from workbench.errors import RunError
from workbench.files import AnyPath, fill_template, user_path
from workbench.losses import Vectors
from workbench.methods.base import ContrastiveMethod
from workbench.methods.rank_distillation import RankDistillation, find_e1
from workbench.methods.rank_mixture import RankMixture
from workbench.methods.rank_targets import read_corpus, write_corpus
from workbench.teachers import find_teacher


class RankMethod(ContrastiveMethod):
    """A method whose similarity at test is the mixture of RankEncoder eq. 7.

    The corpus is embedded again by the trained encoder, E2; in training dev is measured with E2's
    unit rows alone.

    saves_corpus: Whether an encoder is saved with its corpus, which `restore` then needs.
    """

    config: RankEncoderConfig

    def __init__(
        self, config: RankEncoderConfig, *, head_is_read: bool = True, saves_corpus: bool = True
    ) -> None:
        super().__init__(config, head_is_read=head_is_read)
        self.saves_corpus = saves_corpus
        self.ranks = RankDistillation(config)
        self._mixture = None
        # A step makes the embedded corpus stale, and so does loading weights, such as those of the
        # best step.
        self.register_forward_pre_hook(self._drop_mixture)
        self.encoder.backbone.register_load_state_dict_post_hook(self._drop_mixture)

    def prepare_ranks(self, data: Sentences, sentences: list[str]) -> None:
        """Draw the corpus and embed it and the sentences with E1."""
        self.ranks.prepare(data, sentences, self.encoder.device)
        self._drop_mixture()

    @property
    def corpus(self) -> list[str]:
        """The distinct sentences that are ranked; empty before `prepare` or `restore`."""
        return self.ranks.corpus

    def load_start(self, **options: Any) -> Encoder:
        """Return E2: the setting `encoder`, or with start "base" a copy of E1, read as E1.

        In a template, sentences end as E1's do.
        """
        config = self.config
        if config.start == "base":
            name, reading_of_e1 = find_e1(config)
            options["new_pooler"] = False  # E1's own layer
            checkpoint, spec = find_teacher(name, **reading_of_e1)
        else:
            # E2 reads a template only if the setting says so; the ends of sentences are E1's, so
            # that both see the same text.
            checkpoint = self.find_start()
            spec = checkpoint.spec(config.pooling, config.template)
            assert spec  # a given pooling always has one
            of_base = published_spec(config.base)
            if spec.template and of_base:
                spec = replace(spec, full_stop=of_base.full_stop, endings=of_base.endings)
        # The losses compare cosines.
        return Encoder(checkpoint, replace(spec, similarity="cosine"), **options)

    def encode(
        self,
        sentences: list[str] | str,
        batch_size: int = 64,
        *,
        normalize_embeddings: bool = True,
    ) -> Vectors:
        """Return unit rows whose dot product is eq. 7: E2's vector and its rank vector.

        They have d + n numbers for a corpus of n sentences, 2 d under similarity="gaussian".
        `score` computes the same similarity without vectors as wide as the corpus; for the closed
        form it differs a little: see RankMixture. With normalize_embeddings=False, or
        inference_weight 0, E2's vectors alone.

        Raises:
            RunError: There is no corpus before `prepare` or `restore`.
        """
        if self.config.inference_weight == 0 or not normalize_embeddings:
            return super().encode(sentences, batch_size, normalize_embeddings=normalize_embeddings)
        return self.mixture().encode(sentences, batch_size)

    def score(self, sentence1: list[str], sentence2: list[str]) -> ndarray:
        """Return eq. 7 for each pair."""
        if self.config.inference_weight == 0:
            return super().score(sentence1, sentence2)
        return self.mixture().score(sentence1, sentence2)

    def mixture(self) -> RankMixture:
        """Return eq. 7 under the present weights.

        The corpus is embedded again after a training step or a load.
        """
        if not self.corpus:
            raise RunError(
                f"{type(self).__name__} has no corpus before `prepare` or `restore`; "
                "use `encode_plain`"
            )
        if not self._mixture:
            self._mixture = RankMixture(
                self.encode_plain,
                self.corpus,
                weight=self.config.inference_weight,
                similarity=self.config.similarity,
                device=self.encoder.device,
            )
        return self._mixture

    def _drop_mixture(self, *_: Any) -> None:
        """Forget the embedded corpus: weights change."""
        self._mixture = None

    def save(self, folder: AnyPath, *, card: Card | None = None) -> None:
        """Save E2 as any encoder, whose cosine is eq. 7 without the rank part, with the corpus."""
        if not self.saves_corpus:
            super().save(folder, card=card)
            return
        note = fill_template(
            "methods/ranks.txt",
            name=type(self).__name__,
            share=self.config.inference_weight,
            size=len(self.corpus),
        )
        card = dict(card or {})
        card["description"] = f"{card.get('description', '')} {note}".strip()
        # One replacement for encoder and corpus: a kill between them cannot leave an encoder whose
        # corpus is missing.
        with replace_encoder(folder) as fresh:
            super().save(fresh, card=card)
            write_corpus(fresh, self.corpus)

    def restore(self, folder: AnyPath) -> None:
        """Load weights and corpus. Raises EncoderError if one is missing."""
        # Before the weights: a folder without a corpus is refused while nothing has changed.
        corpus = read_corpus(user_path(folder)) if self.saves_corpus else self.corpus
        super().restore(folder)
        self.ranks.corpus = corpus
