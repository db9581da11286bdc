"""Encoders that are evaluated, looked at and learned from, but not trained.

These are static ones and any SentenceTransformer.
"""

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional

from workbench.checkpoints import Checkpoint, EncodingSpec, check_architectures
from workbench.encoder._loading import configuration_of, weights_checksum
from workbench.encoder._model import Encoder
from workbench.encoder._tokens import sentence_list
from workbench.encoder._trial import refuse
from workbench.encoder._vectors import require_finite
from workbench.errors import EncoderError
from workbench.losses import Vectors
from workbench.printing import LOG


class FrozenEncoder:
    """The part of an `Encoder` that needs no training."""

    source: str
    model: nn.Module
    dimension: int
    _embed: Callable[..., Tensor]
    usage: Callable[[], list[Any]]  # everything besides the weights that decides an embedding
    similarity_name = "cosine"
    similarity = staticmethod(Encoder.similarity)

    @cached_property
    def checksum(self) -> str:
        """Return the sha256 of the weights."""
        return weights_checksum(self.model)

    def encode(
        self,
        sentences: Sequence[str] | str,
        batch_size: int = 64,
        *,
        normalize_embeddings: bool = True,
        **prompt: str,
    ) -> Vectors:
        """Return unit rows, float32, on the CPU.

        prompt: `prompt` or `prompt_name` of a SentenceTransformer.
        """
        is_one = isinstance(sentences, str)
        texts = sentence_list([sentences] if is_one else sentences)
        with torch.no_grad():
            vectors = self._embed(texts, batch_size, **prompt).float().cpu()
        require_finite(vectors, self.source, "vector of sentence")
        if normalize_embeddings:
            vectors = functional.normalize(vectors, dim=-1)  # also those of no sentence
        return vectors[0] if is_one else vectors


class StaticEncoder(FrozenEncoder):
    """The mean of one vector per token: model2vec, or SentenceTransformer's StaticEmbedding.

    A sentence without a known token gets zeros.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        """Load the checkpoint; EncoderError if its files are not those of a static encoder."""
        self.source = checkpoint.source
        folder = checkpoint.folder
        with refuse(f"the static encoder in {folder} cannot be read", "copy it again"):
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            weights = load_file(folder / "model.safetensors")
            is_model2vec = "embedding.weight" not in weights
            table = weights["embeddings" if is_model2vec else "embedding.weight"]
            # model2vec can share rows among tokens, and weigh tokens apart from their vectors.
            if "mapping" in weights:  # token -> row
                table = table[weights["mapping"].long()]
            table = table.float()
            if "weights" in weights:
                table *= weights["weights"].float()[:, None]
            table = table[:, : checkpoint.columns].contiguous()
        self._tokenizer.no_padding()
        self._left_out = set()
        # model2vec leaves unknown words out, a SentenceTransformer does not.
        if is_model2vec and folder == checkpoint.root:
            model = json.loads(self._tokenizer.to_str())["model"]
            token = model.get("unk_token")
            self._left_out = {model.get("unk_id") if token is None else model["vocab"].get(token)}
        self.model = nn.EmbeddingBag.from_pretrained(table)
        self.dimension = table.shape[1]

    def _embed(self, sentences: list[str], batch_size: int, **prompt: str) -> Tensor:
        if prompt:
            raise EncoderError(f"{self.source} adds no prompts; st: before its name does")
        tokens = []
        starts = []
        rows = self._tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
        if cut := sum(bool(row.overflowing) for row in rows):
            LOG.warning("%d of %d sentences are longer than tokenizer.json allows", cut, len(rows))
        for row in rows:
            starts.append(len(tokens))
            tokens += [token for token in row.ids if token not in self._left_out]
        # The type also holds for no token at all.
        return self.model(
            torch.tensor(tokens, dtype=torch.long), torch.tensor(starts, dtype=torch.long)
        )

    def usage(self) -> list[Any]:
        return [self._tokenizer.to_str(), sorted(self._left_out)]


class SentenceTransformerEncoder(FrozenEncoder):
    """Whatever SentenceTransformer loads, with its own default prompt."""

    model: Any

    def __init__(self, checkpoint: Checkpoint, device: str) -> None:
        """Load the checkpoint on a device.

        Raises EncoderError if sentence-transformers is not installed, or cannot load it.
        """
        self.source = checkpoint.source
        name = checkpoint.name
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise EncoderError(
                f'{name} needs sentence-transformers: pip install "ranking-workbench[st]"'
            ) from error
        # SentenceTransformer would load unknown weights into a model that has random ones.
        for file in checkpoint.folder.rglob("config.json"):
            check_architectures(file.parent)
        with refuse(f"SentenceTransformer cannot load or use {name}", "take another checkpoint"):
            self.model = SentenceTransformer(
                str(checkpoint.folder),
                device=None if device == "auto" else device,
                model_kwargs={"dtype": torch.float32},  # its files may ask for half precision
            )
            self.dimension = len(self.encode("a"))
        self.similarity_name = str(self.model.similarity_fn_name)
        if self.similarity_name not in ("cosine", "dot"):
            raise EncoderError(
                f"{name} compares by {self.similarity_name}; cosine and dot are supported"
            )

    def _embed(self, sentences: list[str], batch_size: int, **prompt: str) -> Tensor:
        return self.model.encode(
            sentences,
            batch_size=batch_size,
            convert_to_tensor=True,
            show_progress_bar=False,
            **prompt,
        )

    def usage(self) -> list[Any]:
        model = self.model
        tokenizer = getattr(model.tokenizer, "backend_tokenizer", model.tokenizer)
        pipeline = tokenizer.to_str() if hasattr(tokenizer, "to_str") else repr(tokenizer)
        prompt = model.prompts.get(model.default_prompt_name)
        settings = [configuration_of(part.config) for part in model if hasattr(part, "config")]
        return [repr(model), prompt, pipeline, settings, model.truncate_dim]


def load_encoder(
    checkpoint: Checkpoint,
    spec: EncodingSpec | None,
    *,
    device: str = "auto",
    **options: Any,
) -> Any:
    """Return the encoder of a checkpoint of any kind; options are those of `Encoder`."""
    if checkpoint.kind == "static":
        return StaticEncoder(checkpoint)
    if checkpoint.kind == "st":
        return SentenceTransformerEncoder(checkpoint, device)
    return Encoder(checkpoint, spec or EncodingSpec("cls"), device=device, **options)
