"""Frozen encoders by name, and a cache of their embeddings on disk."""

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from workbench.checkpoints import POOLINGS, Checkpoint, EncodingSpec, find_checkpoint
from workbench.data import Pairs, Sentences
from workbench.encoder import Encoder, FrozenEncoder, load_encoder, sentence_list
from workbench.errors import DataError, EncoderError
from workbench.files import (
    AnyPath,
    atomic_path,
    cache_folder,
    file_checksum,
    file_lock,
    reraise_os_error,
    text_checksum,
    user_path,
    write_json,
)
from workbench.printing import LOG

_CHUNK = 50_000  # sentences embedded at a time: bounds the memory of their float32 rows
_EMBEDDINGS, _FACTS = "embeddings.npy", "facts.json"


AnyTeacher = Encoder | FrozenEncoder


def find_teacher(
    name: AnyPath, *, revision: str | None, **reading: Any
) -> tuple[Checkpoint, EncodingSpec]:
    """Return the checkpoint called `name` and its spec, from the pooling and template given."""
    checkpoint = find_checkpoint(name, revision)
    spec = checkpoint.spec(**reading)
    # Static encoders and SentenceTransformer have a pooling of their own.
    if checkpoint.kind != "transformer":
        return checkpoint, EncodingSpec()
    if not spec:
        raise EncoderError(
            f"the pooling of teacher {name!r} is unknown; set "
            f"""'teacher_pooling={{"{name}": "cls"}}' of RankCSE """
            f"or base_pooling=cls of RankEncoder, or another of {', '.join(POOLINGS)}; for "
            "other commands save it with one: Encoder.from_pretrained(NAME, POOLING).save(FOLDER)"
        )
    return checkpoint, spec


def load_teacher(
    name: AnyPath,
    *,
    pooling: str | None = None,
    template: str | None = None,
    revision: str | None = None,
    **options: Any,
) -> AnyTeacher:
    """Load a frozen encoder, with any vocabulary and any width.

    Arguments are those of Encoder.from_pretrained.

    Raises:
        EncoderError: It is missing, broken or an unfinished run, or its pooling is unknown.

    Example:
        teacher = load_teacher("english-encoder")
    """
    checkpoint, spec = find_teacher(name, pooling=pooling, template=template, revision=revision)
    teacher = load_encoder(checkpoint, spec, **options)
    if teacher.similarity_name == "dot":
        raise EncoderError(
            f"teacher {name!r} compares by dot product, and methods learn cosines; take "
            "another teacher"
        )
    return teacher if isinstance(teacher, FrozenEncoder) else teacher.requires_grad_(False)


def teacher_pairs(
    teacher: AnyTeacher, data: Sentences, *, queries: int = 250, targets: int = 4, seed: int = 0
) -> Pairs:
    """Draw pairs from unlabelled sentences; the teacher's cosine takes the place of a grade.

    The targets of a sentence are drawn by `draw_near`.

    Args:
        teacher: As `load_teacher` returns it.
        data: At least `targets` + 1 different sentences; otherwise raises DataError.
        queries: At most so many sentences get targets.
        targets: Of each query.

    Returns:
        Pairs with a gold between 0 and 1; a negative cosine is 0. They can be a dev set where
        nobody has graded pairs, and say how much a student agrees with the teacher, no more.

    Example:
        pairs = teacher_pairs(load_teacher("english-encoder"), load_sentences("mine.txt"))
    """
    # A sentence of a pair is not empty, as one of a training may be.
    sentences = list(filter(str.strip, dict.fromkeys(data.sentences)))
    if len(sentences) <= targets:
        raise DataError(
            f"{data.name}: targets of each need more than {targets} different sentences"
        )
    draw = np.random.default_rng(seed)
    vectors = teacher.encode(sentences).numpy()
    rows = {}  # a pair counts once, either way round
    for query in draw.permutation(len(sentences))[:queries]:
        cosines = vectors @ vectors[query]
        others = np.delete(np.arange(len(sentences)), query)
        for target in others[draw_near(cosines[others], targets, draw)]:
            score = float(cosines[target].clip(0, 1))
            rows[frozenset((query, target))] = (sentences[query], sentences[target], score)
    return Pairs.from_lists(
        *zip(*rows.values(), strict=True), name=f"{data.name}-pairs", scale=(0, 1)
    )


def draw_near(scores: ndarray, count: int, draw: np.random.Generator) -> ndarray:
    """Draw `count` different places of `scores`, with probabilities of 1 / rank, largest first.

    So near sentences are as frequent as distant ones. Of a uniform draw nearly all are unrelated.
    """
    nearest_first = np.argsort(-scores, kind="stable")
    weights = 1 / np.arange(1, len(scores) + 1)
    return draw.choice(nearest_first, count, replace=False, p=weights / weights.sum())


def cached_embeddings(
    teacher: AnyTeacher,
    sentences: Sequence[str],
    *,
    folder: AnyPath | None = None,
    batch_size: int = 64,
) -> ndarray:
    """Return the embeddings of `sentences`, from the cache or computed now and stored there.

    An entry belongs to the sentences and the teacher's weights, configuration, tokenizer, spec,
    limit and precision. The cache's folder may be deleted at any time.

    Args:
        teacher: As `load_teacher` returns it.
        sentences: Any number of them.
        folder: None means WORKBENCH_CACHE, or the user's cache folder.
        batch_size: At most so many sentences at a time.

    Returns:
        A read-only float16 memory map [n, d] of unit rows, in the order given: 3 to 4 decimals of
        a cosine, a quarter of a gigabyte for 10^6 sentences of dimension 128. Convert the rows to
        float32 before taking similarities: near 0.9 half precision has 2,000 values per unit,
        which tie.

    Raises:
        RunError: The folder cannot be written.

    Example:
        rows = cached_embeddings(teacher, ["A dog barks."]).astype("float32")
    """
    sentences = sentence_list(sentences)
    facts = {
        "version": 2,
        "encoder": fingerprint(teacher),
        "sentences": text_checksum(json.dumps(sentences)),
    }
    root = user_path(folder or cache_folder())
    entry = root / "embeddings" / text_checksum(json.dumps(facts))[:32]
    with reraise_os_error(
        root, "a folder that can be written as WORKBENCH_CACHE or as the setting cache"
    ):
        entry.parent.mkdir(parents=True, exist_ok=True)
        # One process computes; others that need the same, such as those of one training, wait for
        # it.
        with file_lock(entry.with_suffix(".lock")):
            if not _is_intact(entry):
                LOG.info(
                    "embedding %d sentences with %s; they are kept in %s",
                    len(sentences),
                    teacher.source,
                    entry,
                )
                with atomic_path(entry, folder=True) as fresh:
                    _write_embeddings(fresh / _EMBEDDINGS, teacher, sentences, batch_size)
                    facts["sha256"] = file_checksum(fresh / _EMBEDDINGS)
                    facts["source"] = teacher.source
                    write_json(fresh / _FACTS, facts)
            return np.load(entry / _EMBEDDINGS, mmap_mode="r", allow_pickle=False)


def fingerprint(teacher: AnyTeacher) -> str:
    """Return the sha256 of everything that decides an embedding."""
    content = [teacher.checksum, *teacher.usage()]
    return text_checksum(json.dumps(content, sort_keys=True, default=str))


def _is_intact(entry: Path) -> bool:
    """Return whether an entry has the content that was written; log it if it was changed."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        stored = json.loads((entry / _FACTS).read_bytes())
        if stored["sha256"] == file_checksum(entry / _EMBEDDINGS):
            return True
    if entry.exists():
        LOG.warning("the cached embeddings in %s are damaged; they are computed again", entry)
    return False


def _write_embeddings(
    path: Path, teacher: AnyTeacher, sentences: Sequence[str], batch_size: int
) -> None:
    # In chunks: a million float32 rows would not fit beside a model. Not through a memory map, in
    # which a full disk kills the process.
    shape = (len(sentences), teacher.dimension)
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(sentences), _CHUNK):
            vectors = teacher.encode(sentences[start : start + _CHUNK], batch_size)
            file.write(vectors.half().numpy().tobytes())
