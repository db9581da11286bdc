"""The sentence encoder: sentences in, one vector each out."""

import logging
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from workbench.checkpoints import Checkpoint, EncodingSpec, find_checkpoint
from workbench.config import Pooling
from workbench.encoder._attention import (
    ATTENTION,
    PACKABLE,
    Packing,
    Unpadded,
    attends_unpadded,
    eval_mode,
    fast_dropout,
)
from workbench.encoder._hardware import HALF, choose_hardware
from workbench.encoder._loading import load_dense, load_mlm_head, load_parts, load_weights
from workbench.encoder._pooling import FIRST_LAYER, Template, pool
from workbench.encoder._publishing import push_folder
from workbench.encoder._saving import replace_encoder, save_encoder
from workbench.encoder._tokens import (
    TokenRows,
    apply_by_length,
    length_sorted_batches,
    sentence_chunks,
    special_tokens,
    token_ids,
)
from workbench.errors import EncoderError, did_you_mean
from workbench.losses import full_precision

_LOG = logging.getLogger("workbench")
_CLS = EncodingSpec("cls")
_CPU_TOKENS = 1024  # padded tokens per batch on a CPU (benchmarks/encode.py)
# Tensor cores work on multiples of 8; elsewhere the extra tokens would only cost.
_MULTIPLES = {"cuda": 8}


class Encoder(nn.Module):
    """A transformer backbone with its tokenizer and its encoding spec: full stop, template,
    pooling.

    train_length: length at which training batches are cut. max_seq_length: length at which `encode`
        cuts, that of the backbone or of its SentenceTransformer files. source: origin of the
        checkpoint, with the commit if on the hub.
    precision: that of `encode` and `score`. training_precision: that of `autocast`, for training
        steps."""

    _is_classifier: ClassVar[bool] = False

    def __init__(
        self,
        checkpoint: Checkpoint,
        spec: EncodingSpec = _CLS,
        *,
        train_length: int | None = None,
        max_seq_length: int | None = None,
        precision: str = "auto",
        device: str = "auto",
        dropout: float | None = None,
        new_pooler: bool = False,
    ) -> None:
        """Load a checkpoint with this spec, in eval mode; other arguments as for
        `from_pretrained`.

        new_pooler: the layer of pooling "pooler" begins at random unless the checkpoint was trained
            with it."""
        super().__init__()
        if checkpoint.kind != "transformer":
            raise EncoderError(
                f"{checkpoint.name} is evaluated, looked at and a teacher, but not trained: "
                "start from a transformer's folder or hub id"
            )
        place, self.training_precision = choose_hardware(device, precision)
        self.precision = "fp32" if precision == "auto" else precision
        backbone, self.tokenizer, positions, self._reads_padding = load_parts(
            checkpoint,
            spec.pooling,
            dropout=dropout,
            as_classifier=self._is_classifier,
            new_pooler=new_pooler,
        )
        self.backbone: Any = fast_dropout(backbone)
        self.checkpoint, self.source = checkpoint, checkpoint.source
        self.spec, self.template = spec, spec.template
        self.pooling: Pooling = spec.pooling
        self.prompts, self.similarity_name = checkpoint.prompts, spec.similarity
        self.dense = (
            load_dense(checkpoint, self.backbone.config.hidden_size) if spec.has_dense else None
        )
        self.dimension: int = (
            self.dense[-1].width if self.dense else self.backbone.config.hidden_size
        )
        self._template = Template(spec, self.tokenizer) if spec.pooling == "mask" else None
        self._first_position = positions.start
        self.max_seq_length = min(len(positions), checkpoint.max_seq_length or len(positions))
        if max_seq_length is not None:
            added = (
                self._template.length - self.tokenizer.num_special_tokens_to_add()
                if self._template
                else 0
            )
            self.max_seq_length = min(self.max_seq_length, max_seq_length + added)
        self.train_length = min(32, self.max_seq_length) if train_length is None else train_length
        if not 3 <= self.train_length <= self.max_seq_length:
            raise EncoderError(
                f"train_length is {self.train_length}, max_seq_length {self.max_seq_length}: "
                "choose 3 <= train_length <= max_seq_length, special tokens included"
            )
        self._skipped = self._count_skipped(spec.prompt)
        self.to(place).eval()

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: str | Path,
        pooling: str | None = None,
        train_length: int | None = None,
        *,
        template: str | None = None,
        revision: str | None = None,
        max_seq_length: int | None = None,
        precision: str = "auto",
        device: str = "auto",
        dropout: float | None = None,
    ) -> "Encoder":
        """Load the encoder of a checkpoint, in eval mode.

        Args:
            path_or_hub_id: A bundled name ("english-encoder", ...), a folder, a finished run's too,
                or a hub id.
            pooling: None takes that of the checkpoint's files (ours or a SentenceTransformer's),
                else the published one of this name (PromptBERT's [MASK] in its template, ...), else
                "cls".
            train_length: Length at which `tokenize` cuts, special tokens included; None is 32.
                `encode` cuts at max_seq_length only, because the field's protocol does not cut at
                test.
            template: For pooling "mask": 'This sentence of "{sentence}" means [MASK].'; None takes
                one as for pooling.
            revision: Branch, tag or commit of a hub id.
            max_seq_length: Length at which `encode` cuts, without a template's tokens; None: the
                checkpoint's.
            precision: "fp32", "bf16" or "fp16"; "auto" is "fp32" in `encode`, so that its vectors
                are those of SentenceTransformer, and "bf16" in training if the hardware computes it
                fast.
            device: "auto" takes cuda, then mps, then cpu.
            dropout: Rate in place of the checkpoint's own.

        Raises EncoderError if the checkpoint is missing, broken or of a kind that no Encoder reads.
        """
        checkpoint = find_checkpoint(str(path_or_hub_id), revision)
        spec = None if cls._is_classifier else checkpoint.spec(pooling, template)
        return cls(
            checkpoint,
            spec or _CLS,
            train_length=train_length,
            max_seq_length=max_seq_length,
            precision=precision,
            device=device,
            dropout=dropout,
        )

    @property
    def device(self) -> torch.device:
        return next(self.backbone.parameters()).device

    def tokenize(
        self, sentences: Iterable[str], *, train_length: int | None = None
    ) -> dict[str, Tensor]:
        """Return input_ids and attention_mask, padded, cut at `train_length` (None: the encoder's
        own)."""
        rows = self.token_rows(sentences, train_length=train_length)
        batch = rows.batch(np.arange(len(rows)))
        return {name: batch[name] for name in ("input_ids", "attention_mask")}

    def token_rows(
        self,
        sentences: Iterable[str],
        *,
        train_length: int | None = None,
        template: str | None = None,
    ) -> TokenRows:
        """Tokenise many sentences, cut as in `tokenize`; `.batch(row numbers)` is an input of
        `forward`.

        template: another one than the encoder's own, for pooling "mask".
        """
        limit = min(
            self.train_length if train_length is None else train_length, self.max_seq_length
        )
        if limit < 3:
            raise EncoderError(
                f"train_length is {limit}: choose 3 or more, special tokens included"
            )
        other = (
            Template(replace(self.spec, template=template), self.tokenizer)
            if template
            else self._template
        )
        return self._cut_rows(sentences, limit, other, self.spec.prompt)[0]

    def bare_rows(self, sentences: Iterable[str]) -> TokenRows:
        """Tokenise many sentences whole, without special tokens; each batch adds these around its
        rows."""
        chunks = (
            token_ids(self.tokenizer, texts, special=False) for texts in sentence_chunks(sentences)
        )
        before, after = special_tokens(self.tokenizer)
        return replace(
            TokenRows.gather(chunks, self.tokenizer.pad_token_id), before=before, after=after
        )

    def _count_skipped(self, prompt: str) -> int:
        """Return how many tokens of a prompt, special ones before it included, the mean leaves
        out."""
        if not (prompt and self.spec.skips_prompt):
            return 0
        return len(token_ids(self.tokenizer, [prompt])[0]) - len(special_tokens(self.tokenizer)[1])

    def _cut_rows(
        self, sentences: Iterable[str], limit: int, template: Template | None, prompt: str
    ) -> tuple[TokenRows, int]:
        """Return the tokens of all sentences, cut at `limit`, and how many sentences were cut."""
        cut, (_, after) = 0, special_tokens(self.tokenizer)

        def cut_chunks() -> Iterator[list[list[int]]]:
            nonlocal cut
            for texts in sentence_chunks(sentences):
                prompted = [prompt + text for text in texts] if prompt else texts
                rows = (
                    token_ids(self.tokenizer, prompted)
                    if template is None
                    else template.wrap(texts)
                )
                long = [i for i, row in enumerate(rows) if len(row) > limit]
                for i in long:
                    head = rows[i][: limit - len(after)]
                    rows[i] = [*head, *after] if template is None else template.cut(texts[i], limit)
                cut += len(long)
                yield rows

        return TokenRows.gather(cut_chunks(), self.tokenizer.pad_token_id), cut

    def forward(self, batch: Mapping[str, Any]) -> Float[Tensor, "n d"]:
        """Return the pooled vectors of a batch from `tokenize`, with gradient, not normalised."""
        ids, mask, states = self._hidden_states(batch)
        chosen = mask.bool() if self._template is None else self._template.mask_position(ids)
        if skipped := batch.get("skipped", self._skipped):
            chosen[:, :skipped] = False
        return self._pool(states, chosen)

    @full_precision  # autocast would round the mean of the tokens to bf16
    def _pool(self, states: Sequence[Tensor], chosen: Tensor) -> Tensor:
        vectors = pool(states, chosen, self.pooling)
        if self.dense is not None:
            return self.dense(vectors)
        return self.backbone.pooler(vectors.unsqueeze(1)) if self.pooling == "pooler" else vectors

    def token_states(self, batch: Mapping[str, Any]) -> Float[Tensor, "n l d"]:
        """Return the last layer's state of every token of a batch, with gradient: the input of
        `mlm_head`."""
        return self._hidden_states(batch)[2][-1]

    def mlm_head(self) -> nn.Module:
        """Load the checkpoint's head that guesses words from `token_states`; EncoderError if its
        kind has none."""
        return load_mlm_head(self.checkpoint)

    def _hidden_states(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor, Sequence[Tensor]]:
        """Return ids, mask and hidden states of a batch, on the encoder's device."""
        ids = batch["input_ids"].to(self.device)
        mask = batch["attention_mask"].to(self.device)
        if self._reads_padding:
            inputs = {"input_ids": ids, "attention_mask": mask}
            states = apply_by_length(
                lambda **rows: torch.stack([*self._run_backbone(**rows)], dim=2), inputs
            )
            unread = ids.shape[1] - states.shape[1]
            return ids, mask, functional.pad(states, (0, 0, 0, 0, 0, unread)).unbind(2)
        packing = self._packing(mask, batch.get("lengths"))
        if packing is None:
            return ids, mask, self._run_backbone(input_ids=ids, attention_mask=mask)
        position = (packing.position + self._first_position).unsqueeze(0)
        states = self._run_backbone(
            input_ids=packing.pack(ids).unsqueeze(0), position_ids=position, packing=packing
        )
        return ids, mask, [packing.unpack(state.squeeze(0)) for state in states]

    def _packing(self, mask: Tensor, lengths: Sequence[int] | None) -> Packing | Unpadded | None:
        """Return how only tokens are computed; None if padding is computed too, or if there is
        none.

        On CUDA that needs `lengths`, the tokens of each row, because reading the mask would wait
        for the device. On a CPU padding costs attention alone, in training (benchmarks/steps.py).
        """
        config = self.backbone.config
        if config.model_type not in PACKABLE or config._attn_implementation != ATTENTION:
            return None
        if attends_unpadded(mask.device, config.hidden_size // config.num_attention_heads):
            if lengths is None or min(lengths) == mask.shape[1]:
                return None
            return Unpadded.of(lengths, mask.shape[1], mask.device)
        return (
            Packing.of(mask)
            if self.training and mask.device.type == "cpu" and not bool(mask.all())
            else None
        )

    def _run_backbone(self, **inputs: Any) -> Sequence[Tensor]:
        """Return the hidden states that the pooling reads, the last layer's last."""
        layered = self.pooling in FIRST_LAYER
        output = self.backbone(output_hidden_states=layered, **inputs)
        return output.hidden_states if layered else (output.last_hidden_state,)

    def encode(
        self,
        sentences: Iterable[str] | str,
        batch_size: int = 64,
        *,
        normalize_embeddings: bool = True,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> Float[Tensor, "*n d"]:
        """Return unit rows (float32, on the CPU, in the order given): a dot product of two rows is
        their cosine.

        prompt: text before each sentence, also by its name in `prompts`; None: the encoder's own,
            if it has one. Dropout is off. Equal sentences are encoded once. Longer sentences are
            cut at `max_seq_length`, and one warning counts them. One string gives its vector [d].
            With normalize_embeddings=False the vectors are as pooled. Raises EncoderError for a
            sentence that is no string, and for vectors that are not finite."""
        if prompt_name is not None and prompt_name not in self.prompts:
            raise EncoderError(
                f"{self.source} has no prompt "
                f"{prompt_name!r}{did_you_mean(prompt_name, self.prompts)}"
            )
        if prompt is None:
            prompt = self.spec.prompt if prompt_name is None else self.prompts[prompt_name]
        if isinstance(sentences, str):
            rows = self.encode(
                [sentences], batch_size, normalize_embeddings=normalize_embeddings, prompt=prompt
            )
            return rows[0]
        places: dict[str, int] = {}
        index = [
            places.setdefault(text, len(places))
            for texts in sentence_chunks(sentences)
            for text in texts
        ]
        rows, cut = self._cut_rows(places, self.max_seq_length, self._template, prompt)
        if cut:
            text = "%d of %d distinct sentences are longer than %d tokens and were cut"
            _LOG.warning(text, cut, len(places), self.max_seq_length)
        vectors = torch.empty(len(rows), self.dimension)
        skipped, multiple = self._count_skipped(prompt), _MULTIPLES.get(self.device.type, 1)

        def batch_of(index: np.ndarray) -> dict[str, Any]:
            return rows.batch(index, multiple=multiple, most=self.max_seq_length) | {
                "skipped": skipped
            }

        self._compute(vectors, rows.lengths, batch_size, batch_of)
        broken = (~vectors.isfinite().all(dim=1)).nonzero()
        if len(broken):
            number = index.index(int(broken[0]))
            raise EncoderError(
                f"{self.source}: the vector of sentence {number} is not finite; its "
                "weights are broken"
            )
        if len(places) < len(index):
            vectors = vectors[torch.tensor(index, dtype=torch.long)]
        return functional.normalize(vectors, dim=1) if normalize_embeddings else vectors

    @staticmethod
    def similarity(
        first: Float[Tensor, "*n d"], second: Float[Tensor, "*m d"]
    ) -> Float[Tensor, "n m"]:
        """Return the cosines of each vector of `first` with each of `second`; one vector counts as
        one row."""
        rows, columns = (
            functional.normalize(torch.atleast_2d(side), dim=1) for side in (first, second)
        )
        return rows @ columns.T

    def _compute(
        self,
        result: Tensor,
        lengths: np.ndarray,
        batch_size: int,
        batch_of: Callable[[np.ndarray], Mapping],
    ) -> None:
        """Fill `result` with `forward` of all rows, without dropout; batch_of: row numbers ->
        batch."""
        tokens = _CPU_TOKENS if self.device.type == "cpu" else None
        with torch.no_grad(), eval_mode(self), self._autocast(self.precision), self._narrow():
            for index in length_sorted_batches(lengths, rows=batch_size, tokens=tokens):
                result[torch.from_numpy(index)] = self(batch_of(index)).float().cpu()

    def autocast(self) -> AbstractContextManager:
        """Return the context of training steps, in `training_precision`."""
        return self._autocast(self.training_precision)

    @contextmanager
    def encode_as_in_training(self) -> Iterator[None]:
        """Let `encode` and `score` compute in `training_precision` too: dev between the steps need
        not be exact."""
        precision = self.precision
        self.precision = self.training_precision
        try:
            yield
        finally:
            self.precision = precision

    def _autocast(self, precision: str) -> AbstractContextManager:
        """Return the context of a precision; within a caller's it caches no weights, which would
        have no gradient."""
        if precision == "fp32":
            return nullcontext()
        kind = self.device.type
        return torch.autocast(
            kind, dtype=HALF[precision], cache_enabled=not torch.is_autocast_enabled(kind)
        )

    def _narrow(self) -> AbstractContextManager:
        """Return a context in which states between layers are bf16 on a CPU, a fifth faster
        (benchmarks/encode.py).

        Under autocast alone a float32 embedding would keep them float32. Sums are in float32 all
        the same."""
        if (
            self.precision != "bf16"
            or self.device.type != "cpu"
            or self.backbone.config.model_type not in PACKABLE
        ):
            return nullcontext()
        return self.backbone.base_model.embeddings.register_forward_hook(
            lambda _, __, states: states.bfloat16()
        )

    def save(
        self,
        folder: str | Path,
        *,
        card: dict[str, Any] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Write the encoder so that AutoModel, SentenceTransformer and from_pretrained read one
        embedding from it.

        The first two return it as `forward` does, not normalised. A saved encoder in `folder` is
        replaced at the very end; EncoderError if the folder contains other files, or cannot be
        written. card: language, license, base_model, datasets, metrics, tags, title and description
        of README.md. dtype: torch.float16 halves the file."""
        with replace_encoder(folder) as fresh:
            self._write(fresh, card or {}, dtype)

    def _write(self, folder: Path, card: dict[str, Any], dtype: torch.dtype) -> None:
        save_encoder(folder, self, card, dtype)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        card: dict[str, Any] | None = None,
        private: bool = False,
        dry_run: bool = False,
    ) -> list[str]:
        """Upload the files of `save` to the hub and return them; `dry_run` sends nothing. RunError
        if that fails."""
        with tempfile.TemporaryDirectory() as scratch:
            self.save(Path(scratch) / "encoder", card=card)
            return [
                *push_folder(Path(scratch) / "encoder", repo_id, private=private, dry_run=dry_run)
            ]

    def restore(self, folder: str | Path) -> None:
        """Load the weights that `save` wrote to `folder`; EncoderError if they are of another
        model."""
        load_weights(self.backbone, Path(folder))
        if self.dense is not None:
            saved = find_checkpoint(str(Path(folder).absolute()))
            self.dense.load_state_dict(
                load_dense(saved, self.backbone.config.hidden_size).state_dict()
            )
