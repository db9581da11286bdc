"""E1 of RankEncoder: its ranks of a corpus as targets, and the loss of a student."""

import torch

from workbench.config import CONFIGS, RankEncoderConfig
from workbench.data import Sentences, load_sentences, own_columns
from workbench.errors import EncoderError
from workbench.files import Facts
from workbench.losses import Scalar, SquareScores, kept_pairs, rank_mse
from workbench.methods.base import ContrastiveMethod, Inputs, Terms
from workbench.methods.rank_targets import RankTargets, draw_corpus
from workbench.methods.rank_vectors import Corpus
from workbench.runs import is_finished, run_path
from workbench.teachers import AnyTeacher, cached_embeddings, load_teacher


class RankDistillation:
    """The corpus, the targets u_i . u_j of E1, and l_r (RankEncoder eqs. 4 to 6)."""

    def __init__(self, config: RankEncoderConfig) -> None:
        self.config = config
        self.corpus = []
        self.inputs: Inputs = {}

    def prepare(self, data: Sentences, sentences: list[str], device: torch.device) -> None:
        """Draw the corpus and embed it and the sentences with E1, from the cache if possible."""
        config = self.config
        drawn_from = load_corpus(config) or data
        # Drawn by its own seed: unless E1 is a run of each seed, its embeddings are shared.
        self.corpus = draw_corpus(drawn_from, config.corpus_size, config.corpus_seed)
        base = load_e1(config)
        self.inputs = {"base": (base.source, base.checksum)}
        if config.corpus:
            self.inputs["corpus"] = (drawn_from.source, drawn_from.checksum)
        # Ranks of a corpus are computed in float32, whatever the cache holds.
        of_corpus = cached_embeddings(base, self.corpus, folder=config.cache)
        corpus_rows = torch.tensor(of_corpus, dtype=torch.float32)
        self.targets = RankTargets(
            cached_embeddings(base, sentences, folder=config.cache),
            Corpus(corpus_rows.to(device)),
            similarity=config.similarity,
            stored=config.ranks == "stored",
        )

    def terms(
        self,
        method: ContrastiveMethod,
        contrastive: Scalar,
        scores: SquareScores,
        target: SquareScores,
    ) -> Terms:
        """Return contrastive and rank loss, combined as the setting `combination` says (eq. 5)."""
        config = self.config
        bounds = {"lower": config.lower, "upper": config.upper}
        # lambda_train stands inside the maximum of eq. 5, so it also decides which loss is larger.
        distilled = config.rank_weight * rank_mse(scores, target, **bounds)
        # Of "max" only one term has a gradient in a step: the history says which, and how many
        # pairs are between the bounds.
        method.observe(
            # As numbers they are averaged over steps; truth values would be counted.
            kept_pairs=kept_pairs(target, **bounds).float().mean(),
            rank_larger=(distilled > contrastive).float(),
            info_nce=contrastive,
            rank_mse=distilled,
        )
        if config.combination == "max":
            return {"hinge": torch.maximum(contrastive, distilled)}
        return {"info_nce": contrastive, "rank_mse": distilled}


def load_corpus(config: RankEncoderConfig) -> Sentences | None:
    """Return the sentences that the corpus is drawn from; None: those of training."""
    if config.corpus is None:
        return None
    return load_sentences(config.corpus, columns=own_columns(config.corpus, config.columns))


def load_e1(config: RankEncoderConfig) -> AnyTeacher:
    """Load E1, frozen.

    Raises EncoderError if it is missing or unfinished, or if its pooling is unknown.
    """
    name, reading = find_e1(config)
    return load_teacher(
        name,
        max_seq_length=config.base_max_seq_length,
        precision=config.precision,
        device=config.device,
        **reading,
    )


def find_e1(config: RankEncoderConfig) -> tuple[str, Facts]:
    """Return E1's name, the folder if it is a run of a method, and how the settings read it."""
    name = config.base
    if name in CONFIGS:
        if not config.base_root:
            raise EncoderError(
                f"E1 is a run of {name!r}: set base_root to the folder of runs, or base "
                "to the run's"
            )
        # E1 has the seed of this run, as in the paper's repeated trials (table 4).
        [config_of_e1] = config.runs_needed
        folder = run_path(config_of_e1, config.base_root)
        if not is_finished(folder):
            raise EncoderError(
                f"E1 is the run {folder}, which is missing or not finished; run `workbench run "
                f"{name} --profile {config.base_profile} --seed {config.seed} --runs "
                f'"{config.base_root}"`'
            )
        name = str(folder)
    return name, {
        "pooling": config.base_pooling,
        "template": config.base_template,
        "revision": config.revisions.get(config.base),
    }
