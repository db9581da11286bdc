"""The sentence encoder: sentences in, one vector each out."""

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from workbench.encoder._checkpoint import find_checkpoint
from workbench.encoder._dropout import ATTENTION, PACKABLE, Packing, fast_dropout
from workbench.encoder._hardware import HALF, choose_device, choose_precision
from workbench.encoder._loading import (
    check_match,
    load_backbone,
    load_tokenizer,
    load_weights,
    load_word_head,
    position_range,
)
from workbench.encoder._pooling import FIRST_LAYER, MEANS, averaged_states, pool
from workbench.encoder._reading import Checkpoint, Pooling, Reading
from workbench.encoder._saving import save_encoder
from workbench.encoder._template import Template
from workbench.encoder._tokens import (
    TokenRows,
    checked_chunks,
    checked_sentences,
    cut_chunks,
    falling_batches,
    ids_of,
    special_tokens,
)
from workbench.errors import EncoderError
from workbench.publishing import push_folder

_CLS = Reading("cls")
_CPU_TOKENS = 1024  # padded tokens a batch on a CPU: see benchmarks/encode.py
_MULTIPLES = {"cuda": 8}  # tensor cores work on multiples of 8; elsewhere the extra tokens would only cost


class Encoder(nn.Module):
    """A transformer backbone with its tokenizer and the way sentences are read: ended, put into a template, pooled.

    backbone: any AutoModel that reads both ways (BERT and RoBERTa kinds are tested). width: numbers a sentence.
    reading: pooling, template and full stop, see Reading. max_tokens: where training batches are cut. limit: where
    encode cuts, that of the backbone or of its SentenceTransformer files if lower. precision: "fp32", "bf16" or "fp16".
    source: where the checkpoint was found, with the commit when it is the hub's.
    """

    _load_model: ClassVar[Callable[..., nn.Module]] = staticmethod(load_backbone)

    def __init__(
        self,
        backbone: nn.Module,
        tokenizer: Any,
        *,
        reading: Reading = _CLS,
        max_tokens: int | None = None,
        precision: Literal["fp32", "bf16", "fp16"] = "fp32",
        checkpoint: Checkpoint | None = None,
    ) -> None:
        super().__init__()
        self.backbone: Any = fast_dropout(backbone)
        self.tokenizer = tokenizer
        self.reading = reading
        self.precision = precision
        self.checkpoint = checkpoint
        self.source = checkpoint.source if checkpoint else "memory"
        self._first_position, self.limit = position_range(backbone, tokenizer)
        if checkpoint and checkpoint.max_seq_length:
            self.limit = min(self.limit, checkpoint.max_seq_length)
        check_match(backbone, tokenizer, pooling=reading.pooling, source=self.source)
        self._template = Template(reading, tokenizer) if reading.pooling == "mask" else None
        self.max_tokens = min(32, self.limit) if max_tokens is None else max_tokens
        if not isinstance(self.max_tokens, int) or not 3 <= self.max_tokens <= self.limit:
            raise EncoderError(
                f"max_tokens is {max_tokens!r}; this encoder takes 3 to {self.limit}, special tokens included"
            )

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | Path,
        pooling: str | None = None,
        max_tokens: int | None = None,
        *,
        template: str | None = None,
        revision: str | None = None,
        precision: str = "auto",
        device: str = "auto",
        dropout: float | None = None,
    ) -> "Encoder":
        """The encoder of a checkpoint, in eval mode.

        path_or_hub_id: "english-encoder", "world-encoder" or "world-teacher" (bundled), an existing folder, or a
            hub id, in this order.
        pooling: None takes what the checkpoint says (ours or a SentenceTransformer's), else how a checkpoint of this
            name was published (PromptBERT's [MASK] in its template, ...), else "cls"; a pooling given always wins.
        max_tokens: tokens, special ones included, at which `tokenize` cuts training sentences; None is 32, or the
            limit if that is lower. `encode` cuts only at the limit of the backbone or of a SentenceTransformer's files
            (max_seq_length), because the field's protocol does not cut at test.
        template: for pooling "mask": 'This sentence of "{sentence}" means [MASK].'; None takes the one found as above.
        revision: branch, tag or commit of a hub id. dropout: a rate in place of the checkpoint's own; None keeps those.
        precision: of `encode`. "auto" is "bf16" where the hardware computes it fast, else "fp32". Weights stay float32.
        device: "auto" takes cuda, then mps, then cpu.

        Raises EncoderError with the cause and the cure.
        """
        checkpoint = find_checkpoint(str(path_or_hub_id), revision)
        reading = cls._read(checkpoint, pooling, template)
        options: dict[str, Any] = {"max_tokens": max_tokens, "precision": precision, "device": device}
        return cls.load(checkpoint, reading, dropout=dropout, **options)

    @classmethod
    def load(
        cls,
        checkpoint: Checkpoint,
        reading: Reading,
        *,
        max_tokens: int | None = None,
        precision: str = "auto",
        device: str = "auto",
        dropout: float | None = None,
    ) -> "Encoder":
        """The encoder of a checkpoint that was found, read so; arguments as for `from_pretrained`."""
        place = choose_device(device)
        encoder = cls(
            cls._load_model(checkpoint, dropout=dropout),
            load_tokenizer(checkpoint),
            reading=reading,
            max_tokens=max_tokens,
            precision=choose_precision(precision, place),
            checkpoint=checkpoint,
        )
        return encoder.to(place).eval()

    @property
    def pooling(self) -> Pooling:
        """How the states of the tokens become one vector."""
        return self.reading.pooling

    @property
    def template(self) -> str | None:
        """What is put around each sentence, for pooling "mask"."""
        return self.reading.template

    @property
    def width(self) -> int:
        """The numbers a sentence."""
        return self.backbone.config.hidden_size

    @property
    def device(self) -> torch.device:
        """Where the backbone lies."""
        return next(self.backbone.parameters()).device

    @property
    def template_tokens(self) -> int:
        """How many tokens the template adds to those that any sentence has; 0 without one."""
        return 0 if self._template is None else self._template.own_tokens - self.tokenizer.num_special_tokens_to_add()

    def tokenize(self, sentences: Iterable[Any], *, max_tokens: int | None = None) -> dict[str, Tensor]:
        """input_ids and attention_mask, padded to the longest sentence, cut at max_tokens (None: the encoder's own)."""
        rows = self.token_rows(sentences, max_tokens=max_tokens)
        if not len(rows):
            raise EncoderError("a batch of no sentences cannot be padded; give at least one")
        return rows.batch(np.arange(len(rows)))

    def token_rows(
        self, sentences: Iterable[Any], *, max_tokens: int | None = None, template: str | None = None
    ) -> TokenRows:
        """Many sentences as `forward` takes them, batch by batch: `.batch(row numbers)`. Cut as `tokenize` cuts.

        template: another one than the encoder's own, for one whose pooling is "mask".
        """
        limit = min(self.max_tokens if max_tokens is None else max_tokens, self.limit)
        wrapped = (
            self._template if template is None else Template(replace(self.reading, template=template), self.tokenizer)
        )
        chunks = (self._ids(chunk, limit, wrapped) for chunk in checked_chunks(sentences))
        return TokenRows.gather(chunks, padding=self.tokenizer.pad_token_id)

    def bare_rows(self, sentences: Iterable[Any]) -> TokenRows:
        """The tokens of many sentences alone, uncut; each batch puts the special tokens around its rows."""
        chunks = (ids_of(self.tokenizer, chunk, special=False) for chunk in checked_chunks(sentences))
        before, after = special_tokens(self.tokenizer)
        return replace(TokenRows.gather(chunks, padding=self.tokenizer.pad_token_id), before=before, after=after)

    def forward(self, batch: Mapping[str, Tensor]) -> Float[Tensor, "n d"]:
        """The pooled embeddings of a batch from `tokenize`: with gradient, not normalised."""
        ids, mask = self._placed(batch)
        chosen = mask.bool() if self._template is None else self._template.mask_position(ids)
        states = self._read_states(ids, mask)
        with torch.autocast(ids.device.type, enabled=False):  # which would round the mean of the tokens to bf16
            return pool(states, chosen, self.pooling)

    def token_states(self, batch: Mapping[str, Tensor]) -> Float[Tensor, "n l d"]:
        """The last layer's state of every token of a batch, with gradient: what a head for words reads."""
        return self._read_states(*self._placed(batch))[-1]

    def word_head(self) -> nn.Module:
        """What guesses words from `token_states`, as the checkpoint has it; EncoderError where its kind has none."""
        if self.checkpoint is None:
            raise EncoderError("an encoder that was built in memory has no head for words: load it from a checkpoint")
        return load_word_head(self.checkpoint)

    def _placed(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Ids and mask of a batch on the encoder's device."""
        ids = batch["input_ids"].to(self.device)
        return ids, batch["attention_mask"].to(self.device) if "attention_mask" in batch else torch.ones_like(ids)

    def _read_states(self, ids: Tensor, mask: Tensor) -> Sequence[Tensor]:
        if self._packs(mask):
            return self._packed_states(ids, mask)
        return self._states(input_ids=ids, attention_mask=mask)

    def _states(self, **inputs: Any) -> Sequence[Tensor]:
        """The hidden states that the pooling reads, the last one last."""
        layered = self.pooling in FIRST_LAYER
        output = self.backbone(output_hidden_states=layered, **inputs)
        return output.hidden_states if layered else (output.last_hidden_state,)

    def _packed_states(self, ids: Tensor, mask: Tensor) -> Sequence[Tensor]:
        """The same, computed on the tokens alone: padding costs attention only (see benchmarks/steps.py)."""
        packing = Packing.of(mask)
        position = (packing.position + self._first_position).unsqueeze(0)
        states = self._states(input_ids=packing.pack(ids).unsqueeze(0), position_ids=position, packing=packing)
        return [packing.unpack(state.squeeze(0)) for state in states]

    def _packs(self, mask: Tensor) -> bool:
        """Training on a CPU, with padding, on a backbone known to take it. In eval all is as AutoModel computes it."""
        config = self.backbone.config
        known = config.model_type in PACKABLE and config._attn_implementation == ATTENTION
        return self.training and mask.device.type == "cpu" and known and not bool(mask.all())

    def encode(self, sentences: Iterable[Any], batch_size: int = 64) -> Float[Tensor, "*n d"]:
        """Unit rows (float32, on the CPU, in the order given), so that a dot product of two rows is their cosine.

        Dropout is off while it runs and each module's training flag is as before afterwards. Equal sentences are
        encoded once. Sentences longer than the backbone's limit are cut there, with one warning that counts them; an
        empty one is read as its special tokens alone.

        sentences: a list of str; one str alone gives its vector [d]. batch_size: sentences a batch at most. Raises
        EncoderError for what is no sentence, and for weights that give no finite numbers.
        """
        if isinstance(sentences, str):
            return self.encode([sentences], batch_size)[0]
        return functional.normalize(self.vectors(sentences, batch_size), dim=1)

    @staticmethod
    def similarity(first: Float[Tensor, "*n d"], second: Float[Tensor, "*m d"]) -> Float[Tensor, "n m"]:
        """The cosines of each vector of `first` with each of `second`; one vector counts as one row."""
        rows = (functional.normalize(torch.atleast_2d(side), dim=1) for side in (first, second))
        return torch.matmul(next(rows), next(rows).T)

    def vectors(self, sentences: Iterable[Any], batch_size: int = 64) -> Float[Tensor, "n d"]:
        """The pooled vectors as `forward` gives them, not normalised; all else as in `encode`."""
        texts = checked_sentences(sentences)
        places: dict[str, int] = {}
        index = [places.setdefault(text, len(places)) for text in texts]
        chunks = cut_chunks(list(places), lambda chunk, limit: self._ids(chunk, limit, self._template), self.limit)
        rows = TokenRows.gather(chunks, padding=self.tokenizer.pad_token_id)
        options: dict[str, Any] = {"multiple": _MULTIPLES.get(self.device.type, 1), "most": self.limit}
        vectors = torch.empty(len(rows), self.width)
        distinct = self._computed(vectors, rows.lengths, batch_size, lambda index: rows.batch(index, **options))
        bad = ~torch.isfinite(distinct).all(dim=1)
        if bad.any():
            culprit = index.index(int(bad.nonzero()[0]))
            raise EncoderError(
                f"{self.source}: the embedding of sentence {culprit} is not finite; its weights are broken"
            )
        return distinct if len(places) == len(texts) else distinct[torch.tensor(index, dtype=torch.long)]

    def token_vectors(self, sentence: str) -> tuple[list[str], Float[Tensor, "l d"]]:
        """The tokens of a sentence as `encode` reads it, special ones too, and a vector each: their mean is `vectors`.

        Raises EncoderError where the pooling is no mean over tokens.
        """
        if self.pooling not in MEANS:
            raise EncoderError(f"pooling {self.pooling!r} takes no mean over tokens; only {', '.join(MEANS)} do")
        ids = torch.tensor(self._ids(checked_sentences([sentence]), self.limit, None), device=self.device)
        with torch.no_grad(), _in_eval(self), self.autocast():
            states = self._states(input_ids=ids, attention_mask=torch.ones_like(ids))
        names = [self.tokenizer.decode([number]).strip() for number in ids[0].tolist()]
        return names, averaged_states(states, self.pooling)[0].float().cpu()

    def save(
        self, folder: str | Path, *, card: dict[str, Any] | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        """Writes the encoder so that AutoModel, SentenceTransformer and from_pretrained read one embedding from it.

        The first two return it as `forward` does, not normalised. An encoder that lies at `folder` is replaced at the
        very end; anything else there is refused. Weights are safetensors in `dtype`; torch.float16 halves the file.

        card: language, license, base_model, datasets, metrics, tags, title, description, results (name -> value) of
            README.md; what is not given is not written. Raises EncoderError when the folder cannot be written.
        """
        save_encoder(self, Path(folder), card, dtype)

    def save_pretrained(self, folder: str | Path, **options: Any) -> None:
        """`save`, by the name that it has in transformers."""
        self.save(folder, **options)

    def push_to_hub(
        self, repo_id: str, *, card: dict[str, Any] | None = None, private: bool = False, dry_run: bool = False
    ) -> list[str]:
        """Uploads what `save` writes to the hub; the files sent, or with `dry_run` those that would be. RunError."""
        with tempfile.TemporaryDirectory() as made:
            self.save(Path(made) / "encoder", card=card)
            return push_folder(Path(made) / "encoder", repo_id, private=private, dry_run=dry_run)

    def restore(self, folder: str | Path) -> None:
        """Takes back the weights that `save` wrote to `folder`; EncoderError when they are of another model."""
        load_weights(self.backbone, Path(folder))

    @staticmethod
    def _read(checkpoint: Checkpoint, pooling: str | None, template: str | None) -> Reading:
        return checkpoint.read(pooling, template) or _CLS

    def _ids(self, texts: list[str], limit: int | None, template: Template | None) -> list[list[int]]:
        """The ids of each text with special tokens, in its template if there is one; cut at `limit`, None: not cut."""
        return ids_of(self.tokenizer, texts, limit) if template is None else template.ids(texts, limit)

    def _computed(
        self, result: Tensor, lengths: np.ndarray, batch_size: int, batch_of: Callable[[np.ndarray], Mapping]
    ) -> Tensor:
        """`result`, filled with what `forward` gives for all rows, in eval mode; `batch_of`: row numbers -> batch."""
        tokens = _CPU_TOKENS if self.device.type == "cpu" else None
        with torch.no_grad(), _in_eval(self), self.autocast(), self._narrow():
            for index in falling_batches(lengths, rows=batch_size, tokens=tokens):
                result[torch.from_numpy(index)] = self(batch_of(index)).float().cpu()
        return result

    def autocast(self) -> AbstractContextManager:
        """bf16 or fp16. No weight cache within a caller's autocast: its copies would have no gradient."""
        if self.precision == "fp32":
            return nullcontext()
        kind = self.device.type
        return torch.autocast(kind, dtype=HALF[self.precision], cache_enabled=not torch.is_autocast_enabled(kind))

    def _narrow(self) -> AbstractContextManager:
        """On a CPU in bf16 what flows between the layers is bf16 too, a fifth faster (benchmarks/encode.py).

        Under autocast alone a float32 embedding would keep it float32, to be cast before every product. LayerNorm and
        the products still add up in float32.
        """
        config = self.backbone.config
        if self.precision != "bf16" or self.device.type != "cpu" or config.model_type not in PACKABLE:
            return nullcontext()
        return self.backbone.base_model.embeddings.register_forward_hook(lambda _, __, states: states.bfloat16())


@contextmanager
def _in_eval(module: nn.Module) -> Iterator[None]:
    """Eval mode; afterwards each submodule has its own flag back, also when some were frozen in eval on purpose."""
    training = [part for part in module.modules() if part.training]
    module.eval()
    try:
        yield
    finally:
        for part in training:
            part.training = True
