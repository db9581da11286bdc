"""The sentence encoder: sentences in, one vector each out."""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray
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
from workbench.encoder._hardware import HALF, choose_hardware, to_device
from workbench.encoder._loading import (
    configuration_of,
    load_dense,
    load_parts,
    load_weights,
    weights_checksum,
)
from workbench.encoder._pooling import FIRST_LAYER, Template, pool
from workbench.encoder._publishing import push_folder
from workbench.encoder._saving import Card, replace_encoder, save_encoder
from workbench.encoder._tokens import (
    TokenRows,
    apply_by_length,
    sentence_chunks,
    sentence_list,
    special_tokens,
    token_ids,
)
from workbench.encoder._vectors import number_sentences, require_finite
from workbench.errors import EncoderError, did_you_mean, require_known
from workbench.files import AnyPath, Facts, user_path
from workbench.losses import Embeddings, Scores, Vectors, cosine_matrix, full_precision
from workbench.printing import LOG

_CLS = EncodingSpec("cls")
_DTYPES = "torch.float32 torch.float16 torch.bfloat16 torch.float64"
_CPU_TOKENS = 1024  # padded tokens per batch on a CPU (benchmarks/encode.py)
_GPU_TOKENS = 65_536  # elsewhere, if more than `batch_size` short sentences are computed at once
# Tensor cores work on multiples of 8; elsewhere the extra tokens would only cost.
MULTIPLES = {"cuda": 8}
_PIECES = {"cuda": 16_384}  # sentences that are tokenised at a time; elsewhere all


class Encoder(nn.Module):
    """A transformer backbone with its tokenizer and its encoding spec: pooling, template, prompt.

    train_length: length at which training batches are cut.
    max_seq_length: length at which `encode` cuts, that of the backbone or of its
        SentenceTransformer files.
    source: origin of the checkpoint, with the commit if on the hub.
    precision: that of `encode` and `score`.
    training_precision: that of `autocast`, for training steps.
    reads_padding: its attention reads padding, so that rows of one length are computed together.
    """

    _is_classifier = False

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
        """Load a checkpoint with this spec, in eval mode; other options of `from_pretrained`.

        new_pooler: the layer of pooling "pooler" begins at random unless the checkpoint was trained
            with it.
        """
        super().__init__()
        if checkpoint.kind != "transformer":
            raise EncoderError(
                f"{checkpoint.name} is evaluated, looked at and a teacher, but not trained: "
                "start from a transformer's folder or hub id"
            )
        place, self.training_precision = choose_hardware(device, precision)
        self.precision = "fp32" if precision == "auto" else precision
        backbone, self.tokenizer, positions, self.reads_padding = load_parts(
            checkpoint,
            spec.pooling,
            dropout=dropout,
            as_classifier=self._is_classifier,
            new_pooler=new_pooler,
        )
        self.backbone: Any = fast_dropout(backbone)
        self.checkpoint = checkpoint
        self.source = checkpoint.source
        self.prompts = checkpoint.prompts
        self.spec = spec
        self.template = spec.template
        self.pooling: Pooling = spec.pooling
        self.similarity_name = spec.similarity
        width = self.backbone.config.hidden_size
        self.dense = load_dense(checkpoint, width) if spec.has_dense else None
        self.dimension: int = self.dense[-1].width if self.dense else width
        self._template = Template(spec, self.tokenizer) if spec.pooling == "mask" else None
        self._first_position = positions.start
        self.max_seq_length = min(len(positions), checkpoint.max_seq_length or len(positions))
        around = len(token_ids(self.tokenizer, [spec.prompt], special=False)[0])
        if around and train_length is not None and train_length < 3 + around:
            raise EncoderError(
                f"training cuts at {train_length} tokens (train_length, in settings "
                f"max_seq_length), and the prompt {spec.prompt!r} alone has {around}: choose "
                f"{3 + around} or more"
            )
        if max_seq_length is not None:
            # The user's limit counts the tokens of a sentence, not those of a prompt or template.
            if self._template:
                around = self._template.length - self.tokenizer.num_special_tokens_to_add()
            self.max_seq_length = min(self.max_seq_length, max_seq_length + around)
        self.train_length = min(32, self.max_seq_length) if train_length is None else train_length
        if not 3 <= self.train_length <= self.max_seq_length:
            raise EncoderError(
                f"training cuts at {self.train_length} tokens (train_length, in settings "
                f"max_seq_length), and the encoder reads {self.max_seq_length}: choose 3 or more "
                "for both, and no more for training, special tokens included"
            )
        self._skipped = self._count_skipped(spec.prompt)
        self.to(place).eval()

    @classmethod
    def from_pretrained(
        cls,
        path_or_hub_id: AnyPath,
        pooling: str | None = None,
        train_length: int | None = None,
        *,
        template: str | None = None,
        revision: str | None = None,
        **options: Any,
    ) -> "Encoder":
        """Load the encoder of a checkpoint, in eval mode.

        Options are max_seq_length, precision, device and dropout.

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
            max_seq_length: Length at which `encode` cuts, beside a template or prompt; None: the
                checkpoint's.
            precision: "fp32", "bf16" or "fp16"; "auto" is "fp32" in `encode`, so that its vectors
                are those of SentenceTransformer, and "bf16" in training if the hardware computes it
                fast.
            device: "auto" takes cuda, then mps, then cpu.
            dropout: Rate in place of the checkpoint's own.

        Raises:
            EncoderError: The checkpoint is missing, broken or of a kind that no Encoder reads.

        Example:
            encoder = Encoder.from_pretrained("english-encoder", pooling="mean")
        """
        checkpoint = find_checkpoint(path_or_hub_id, revision)
        # A cross-encoder has no pooling, so the parts that others lack do not matter to it.
        spec = None if cls._is_classifier else checkpoint.spec(pooling, template)
        return cls(checkpoint, spec or _CLS, train_length=train_length, **options)

    @property
    def device(self) -> torch.device:
        return next(self.backbone.parameters()).device

    @property
    def checksum(self) -> str:
        """The sha256 of its present weights."""
        return weights_checksum(self)

    def usage(self) -> list[Any]:
        """Return everything besides the weights that decides an embedding."""
        tokenizer = self.tokenizer
        if tokenizer.is_fast:
            pipeline = json.loads(tokenizer.backend_tokenizer.to_str())
            # The last call left these set.
            for name in ("padding", "truncation"):
                pipeline.pop(name, None)
        else:
            pipeline = [
                type(tokenizer).__name__,
                tokenizer.get_vocab(),
                tokenizer.special_tokens_map,
                tokenizer.init_kwargs,
            ]
        return [
            configuration_of(self.backbone.config),
            pipeline,
            asdict(self.spec),
            self.max_seq_length,
            self.precision,
            *map(repr, self.dense or ()),  # the functions of dense layers have no weights
        ]

    def tokenize(
        self, sentences: Iterable[str], *, train_length: int | None = None
    ) -> dict[str, Tensor]:
        """Return input_ids and attention_mask, padded, cut at `train_length`."""
        rows = self.token_rows(sentences, train_length=train_length)
        batch = rows.batch(range(len(rows)))
        del batch["lengths"]
        return batch

    def token_rows(
        self,
        sentences: Iterable[str],
        *,
        train_length: int | None = None,
        second_template: str | None = None,
    ) -> TokenRows:
        """Tokenise many sentences, cut as in `tokenize`.

        `.batch(row numbers)` of the result is an input of `forward`.
        second_template: around the same sentences once more, after all rows; for pooling "mask".
        """
        limit = self.train_length if train_length is None else train_length
        if limit < 3:
            raise EncoderError(
                f"train_length is {limit}: choose 3 or more, special tokens included"
            )
        templates = [self._template]
        if second_template:
            templates.append(Template(replace(self.spec, template=second_template), self.tokenizer))
        limit = min(limit, self.max_seq_length)
        sentences = sentence_list(sentences)  # each template reads them anew
        return self._cut_rows(sentences, limit, templates, self.spec.prompt)[0]

    def bare_rows(self, sentences: Iterable[str]) -> TokenRows:
        """Tokenise many sentences whole, without special tokens."""
        chunks = (
            token_ids(self.tokenizer, texts, special=False) for texts in sentence_chunks(sentences)
        )
        return TokenRows.gather(chunks, self.tokenizer.pad_token_id)

    def _count_skipped(self, prompt: str) -> int:
        """Return how many tokens of a prompt, and special ones before it, the mean leaves out."""
        if not (prompt and self.spec.skips_prompt):
            return 0
        _, after = special_tokens(self.tokenizer)
        return len(token_ids(self.tokenizer, [prompt])[0]) - len(after)

    def _cut_rows(
        self,
        sentences: Iterable[str],
        limit: int,
        templates: Sequence[Template | None],
        prompt: str,
    ) -> tuple[TokenRows, int]:
        """Return the tokens of all sentences in each template, cut, and how many were cut."""
        _, after = special_tokens(self.tokenizer)
        cut = 0

        def cut_chunks(template):
            nonlocal cut
            for texts in sentence_chunks(sentences):
                if template:
                    rows = template.wrap(texts)
                else:
                    rows = token_ids(self.tokenizer, [prompt + text for text in texts])
                for i, row in enumerate(rows):
                    if len(row) > limit:
                        cut += 1
                        head = row[: limit - len(after)]
                        rows[i] = template.cut(texts[i], limit) if template else [*head, *after]
                yield rows

        chunks = chain.from_iterable(map(cut_chunks, templates))
        return TokenRows.gather(chunks, self.tokenizer.pad_token_id), cut

    def forward(self, batch: Mapping[str, Any]) -> Embeddings:
        """Return the pooled vectors of a batch from `tokenize`, with gradient, not normalised."""
        ids, mask, states = self._hidden_states(batch)
        chosen = self._template.mask_position(ids) if self._template else mask.bool()
        if skipped := batch.get("skipped", self._skipped):
            chosen[:, :skipped] = False
        return self._pool(states, chosen)

    @full_precision  # autocast would round the mean of the tokens to bf16
    def _pool(self, states: Sequence[Tensor], chosen: Tensor) -> Tensor:
        vectors = pool(states, chosen, self.pooling)
        if self.dense:
            return self.dense(vectors)
        return self.backbone.pooler(vectors.unsqueeze(1)) if self.pooling == "pooler" else vectors

    def token_states(self, batch: Mapping[str, Any]) -> Float[Tensor, "n l d"]:
        """Return the last layer's state of every token, with gradient: `load_mlm_head` reads it."""
        return self._hidden_states(batch)[2][-1]

    def _hidden_states(self, batch: Mapping[str, Any]) -> tuple[Tensor, Tensor, Sequence[Tensor]]:
        """Return ids, mask and hidden states of a batch, on the encoder's device."""
        ids = batch["input_ids"].to(self.device)
        mask = batch["attention_mask"].to(self.device)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.reads_padding:
            # Layers become a dimension, because a batch of one length returns one tensor.
            states = apply_by_length(
                lambda **rows: torch.stack([*self._run_backbone(**rows)], dim=2), inputs
            )
            unread = ids.shape[1] - states.shape[1]
            return ids, mask, functional.pad(states, (0, 0, 0, 0, 0, unread)).unbind(2)
        packing = self._packing(mask, batch.get("lengths"))
        if not packing:
            return ids, mask, self._run_backbone(**inputs)
        # All tokens are one row, so each needs the position that it has in its sentence.
        states = self._run_backbone(
            input_ids=packing.pack(ids).unsqueeze(0),
            position_ids=(packing.position + self._first_position).unsqueeze(0),
            packing=packing,
        )
        return ids, mask, [packing.unpack(state.squeeze(0)) for state in states]

    def _packing(self, mask: Tensor, lengths: Sequence[int] | None) -> Packing | None:
        """Return how to compute tokens only; None if padding is computed too, or if there is none.

        On CUDA that needs `lengths`, the tokens of each row, because reading the mask would wait
        for the device. On a CPU padding costs attention alone, in training (benchmarks/steps.py).
        """
        config = self.backbone.config
        if config.model_type not in PACKABLE or config._attn_implementation != ATTENTION:
            return None
        columns = mask.shape[1]
        if attends_unpadded(mask.device, config.hidden_size // config.num_attention_heads):
            if lengths is None or min(lengths) == columns:
                return None
            return Unpadded.of(lengths, columns, mask.device)
        is_cheaper = self.training and mask.device.type == "cpu"
        return Packing.of_mask(mask) if is_cheaper and not bool(mask.all()) else None

    def _run_backbone(self, **inputs: Any) -> Sequence[Tensor]:
        """Return the hidden states that the pooling reads, the last layer's last."""
        reads_two = self.pooling in FIRST_LAYER
        output = self.backbone(output_hidden_states=reads_two, return_dict=True, **inputs)
        return output.hidden_states if reads_two else (output.last_hidden_state,)

    def encode(
        self,
        sentences: Iterable[str] | str,
        batch_size: int = 64,
        *,
        normalize_embeddings: bool = True,
        prompt_name: str | None = None,
        prompt: str | None = None,
    ) -> Vectors:
        """Return one unit row per sentence: a dot product of two rows is their cosine.

        Dropout is off. Equal sentences are encoded once. Longer sentences are cut at
        `max_seq_length`, and one warning counts them.

        Args:
            sentences: Any number of them; one string gives its vector [d].
            batch_size: At most so many sentences at a time; on a GPU more, if they are short:
                those that have as many tokens as so many of `max_seq_length`, at most 65,536.
            normalize_embeddings: False returns the vectors as pooled.
            prompt_name: Name of a prompt in `prompts`.
            prompt: Text before each sentence; None takes the encoder's own, if it has one.

        Returns:
            float32, on the CPU, in the order given.

        Raises:
            EncoderError: A sentence is no string, a vector is not finite, a prompt is unknown or
                comes with a template.

        Example:
            vectors = encoder.encode(["A dog barks.", "A cat sleeps."])
            cosine = vectors[0] @ vectors[1]
        """
        # Two names are known to every SentenceTransformer.
        if prompt_name not in (None, "query", "document", *self.prompts):
            raise EncoderError(
                f"{self.source} has no prompt {prompt_name!r}"
                f"{did_you_mean(prompt_name, self.prompts)}"
            )
        own = self.spec.prompt
        if prompt is None:
            prompt = own if prompt_name is None else self.prompts.get(prompt_name, "")
        if prompt != own and self._template:
            raise EncoderError(f"{self.source} reads sentences in a template, without a prompt")
        is_one = isinstance(sentences, str)
        # Suites repeat sentences: each distinct text is encoded once.
        distinct, [index] = number_sentences(sentence_list([sentences] if is_one else sentences))
        count = len(distinct)
        on_gpu = self.device.type == "cuda"
        vectors = torch.empty(count, self.dimension, pin_memory=on_gpu)
        skipped = self._count_skipped(prompt)
        # While a GPU computes a piece, the next one is tokenised here.
        piece = _PIECES.get(self.device.type, count or 1)
        cut = unknown = tokens = 0
        for start in range(0, count, piece):
            texts = distinct[start : start + piece]
            rows, cut_here = self._cut_rows(texts, self.max_seq_length, [self._template], prompt)
            cut += cut_here
            unknown += (rows.flat == self.tokenizer.unk_token_id).sum()
            tokens += rows.flat.size
            batch_of = partial(self._padded_batch, rows, skipped)
            self._compute(vectors[start : start + piece], rows.lengths, batch_size, batch_of)
        if on_gpu:
            torch.cuda.synchronize(self.device)
        if cut:
            LOG.warning(
                "%d of %d distinct sentences are longer than %d tokens and were cut",
                cut,
                count,
                self.max_seq_length,
            )
        if 3 * unknown > tokens:
            LOG.warning(
                "%d of %d tokens are unknown to %s; take an encoder of their language",
                unknown,
                tokens,
                self.source,
            )
        if count < len(index):
            vectors = vectors[index]
        require_finite(vectors, self.source, "vector of sentence")
        if normalize_embeddings:
            vectors = functional.normalize(vectors, dim=1)
        return vectors[0] if is_one else vectors

    def _padded_batch(self, rows: TokenRows, skipped: int, index: ndarray) -> Facts:
        """Return the batch of these rows; `skipped` tokens of each are left out of its mean."""
        multiple = MULTIPLES.get(self.device.type, 1)
        batch = rows.batch(index, multiple=multiple, most=self.max_seq_length)
        return batch | {"skipped": skipped}

    @staticmethod
    def similarity(first: Vectors, second: Float[Tensor, "*m d"]) -> Scores:
        """Return the cosines of all vectors of `first` with all of `second`.

        One vector counts as one row.
        """
        return cosine_matrix(*torch.atleast_2d(first, second))

    def _compute(
        self,
        result: Tensor,
        lengths: ndarray,
        batch_size: int,
        batch_of: Callable[[ndarray], Mapping],
    ) -> None:
        """Fill `result` with `forward` of all rows, the longest first, without dropout.

        batch_of: row numbers -> batch.
        """
        order = np.argsort(-lengths, kind="stable")
        # A copy of each batch to the CPU would wait for the device.
        on_device = (
            result if self.device.type == "cpu" else torch.empty_like(result, device=self.device)
        )
        start = 0
        with torch.no_grad(), eval_mode(self), self._autocast(self.precision), self._narrow():
            while start < len(order):
                count = self._rows_at_once(int(lengths[order[start]]), batch_size)
                index = order[start : start + count]
                batch = to_device({"rows": torch.from_numpy(index), **batch_of(index)}, self.device)
                places = batch.pop("rows")
                on_device[places] = self(batch).float()
                start += count
        if on_device is not result:
            # Into pinned memory without a wait: the caller waits once for all pieces.
            result.copy_(on_device, non_blocking=result.is_pinned())

    def _rows_at_once(self, longest: int, batch_size: int) -> int:
        """Return the size of a batch whose longest row has so many tokens."""
        if self.device.type == "cpu":
            # A row of more tokens than the limit is a batch of its own.
            return max(1, min(batch_size, _CPU_TOKENS // longest))
        # In the memory of `batch_size` sentences that are as long as possible; for an encoder of
        # long texts that could be more than a card has, though its sentences are short.
        tokens = min(batch_size * self.max_seq_length, _GPU_TOKENS)
        return max(batch_size, tokens // longest)

    def autocast(self) -> AbstractContextManager:
        """Return the context of training steps, in `training_precision`."""
        return self._autocast(self.training_precision)

    @contextmanager
    def encode_as_in_training(self) -> Iterator[None]:
        """Let `encode` and `score` compute in `training_precision` too, for dev between steps."""
        precision = self.precision
        self.precision = self.training_precision
        try:
            yield
        finally:
            self.precision = precision

    def _autocast(self, precision: str) -> AbstractContextManager:
        if precision == "fp32":
            return nullcontext()
        kind = self.device.type
        # Within a caller's autocast nothing is cached: weights cast here would have no gradient.
        return torch.autocast(
            kind, dtype=HALF[precision], cache_enabled=not torch.is_autocast_enabled(kind)
        )

    def _narrow(self) -> AbstractContextManager:
        """Return a context in which states between layers are bf16 on a CPU.

        That is a fifth faster (benchmarks/encode.py). Under autocast alone a float32 embedding
        would keep them float32. Sums are in float32 all the same.
        """
        is_narrow = self.precision == "bf16" and self.device.type == "cpu"
        if not is_narrow or self.backbone.config.model_type not in PACKABLE:
            return nullcontext()
        embeddings = self.backbone.base_model.embeddings
        return embeddings.register_forward_hook(lambda _, __, states: states.bfloat16())

    def save(
        self,
        folder: AnyPath,
        *,
        card: Card | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Write the encoder so that AutoModel, SentenceTransformer and from_pretrained read it.

        All three return the same embedding; the first two as `forward` does, not normalised. A
        saved encoder in `folder` is replaced at the very end.

        Args:
            folder: A new or empty folder, or one with a saved encoder.
            card: language, license, base_model, datasets, metrics, tags, title and description of
                README.md.
            dtype: torch.float16 halves the file.

        Raises:
            EncoderError: The folder contains other files, or cannot be written.
            SettingError: dtype is of other numbers than weights.

        Example:
            encoder.save("my-encoder", card={"language": "en"})
        """
        # Before a saved encoder is replaced: whole numbers would make zeros of most weights.
        require_known("dtype", str(dtype), _DTYPES.split(), "of saved weights")
        with replace_encoder(folder) as fresh:
            self._write(fresh, card or {}, dtype)

    _write = save_encoder  # as a method, whose first argument is the encoder

    def push_to_hub(
        self,
        repo_id: str,
        *,
        card: Card | None = None,
        private: bool = False,
        dry_run: bool = False,
    ) -> list[str]:
        """Upload the files of `save` to the hub and return their names.

        dry_run: send nothing. Raises RunError if the upload fails.
        """
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "encoder"
            self.save(folder, card=card)
            return [*push_folder(folder, repo_id, private=private, dry_run=dry_run)]

    def restore(self, folder: AnyPath) -> None:
        """Load the weights that `save` wrote to `folder`.

        Raises EncoderError if they are of another model.
        """
        load_weights(self.backbone, user_path(folder))
        # Layers over the pooling are in folders of their own, one for each module.
        if self.dense:
            saved = find_checkpoint(user_path(folder).absolute())
            layers = load_dense(saved, self.backbone.config.hidden_size)
            self.dense.load_state_dict(layers.state_dict())
