"""Tasks and encoders of mteb that need no network; `write_all` made the files in mteb_written/."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import mteb
import numpy as np
from datasets import Dataset, DatasetDict
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.sts import AbsTaskSTS
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models import ModelMeta
from mteb.models.abs_encoder import AbsEncoder

ENGLISH = [
    ("a red kite hangs over the field", "a kite circles above the meadow", 4.2),
    ("two men carry a piano upstairs", "two people move a piano", 3.8),
    ("the baker opens before dawn", "the shop is closed on mondays", 1.0),
    ("rain is expected in the north", "it will rain in the north", 4.9),
    ("she lost her keys again", "the keys are on the table", 2.1),
    ("a train left the station", "nobody reads the timetable", 0.4),
]
GERMAN = [
    ("ein Hund bellt im Hof", "im Hof bellt ein Hund", 5.0),
    ("die Suppe ist kalt", "das Wetter ist warm", 0.5),
    ("er repariert sein Rad", "er flickt einen Reifen", 3.0),
    ("der Laden schließt um acht", "um acht ist der Laden zu", 4.5),
]


def metadata(name: str, kind: str, languages: Any, splits: list[str], score: str) -> TaskMetadata:
    unknown = (
        "reference date domains task_subtypes license annotations_creators dialect sample_creation "
        "bibtex_citation"
    )
    return TaskMetadata(
        name=name,
        description="sentences of our own",
        dataset={"path": "none/none", "revision": "1"},
        type=kind,
        category="t2t",
        modalities=["text"],
        eval_splits=splits,
        eval_langs=languages,
        main_score=score,
        **dict.fromkeys(unknown.split()),
    )


def dataset(rows: list[tuple[str, str, float]]) -> Dataset:
    first, second, score = zip(*rows, strict=True)
    return Dataset.from_dict({"sentence1": first, "sentence2": second, "score": score})


class OneSTS(AbsTaskSTS):
    metadata = metadata("OneSTS", "STS", ["eng-Latn"], ["test"], "cosine_spearman")

    def load_data(self, **_: Any) -> None:
        self.dataset = {"default": DatasetDict(test=dataset(ENGLISH))}
        self.data_loaded = True


class TwoSTS(AbsTaskSTS):
    metadata = metadata(
        "TwoSTS",
        "STS",
        {"en": ["eng-Latn"], "de": ["deu-Latn"]},
        ["validation", "test"],
        "cosine_spearman",
    )

    def load_data(self, **_: Any) -> None:
        self.dataset = {
            "en": DatasetDict(validation=dataset(ENGLISH[:3]), test=dataset(ENGLISH)),
            "de": DatasetDict(validation=dataset(GERMAN[:2]), test=dataset(GERMAN)),
        }
        self.data_loaded = True


class TwoReranking(AbsTaskRetrieval):
    metadata = metadata("TwoReranking", "Reranking", ["eng-Latn"], ["test"], "ndcg_at_10")

    def load_data(self, **_: Any) -> None:
        texts = [row[1] for row in ENGLISH]
        names = [f"d{number}" for number in range(len(texts))]
        queries = {"q0": ENGLISH[0][0], "q3": ENGLISH[3][0]}
        self.dataset = {
            "default": {
                "test": {
                    "corpus": Dataset.from_dict({"id": names, "title": [""] * 6, "text": texts}),
                    "queries": Dataset.from_dict(
                        {"id": list(queries), "text": list(queries.values())}
                    ),
                    "relevant_docs": {"q0": {"d0": 2, "d1": 1}, "q3": {"d3": 2}},
                    "top_ranked": dict.fromkeys(queries, names),
                }
            }
        }
        self.data_loaded = True


class Letters(AbsEncoder):
    """Counts pairs of letters in so many places."""

    def __init__(self, size: int) -> None:
        self.size = size
        names = {"name": f"own/letters-{size}", "revision": "r1"}
        self.mteb_model_meta = ModelMeta.create_empty(names)

    def encode(self, inputs: Any, **_: Any) -> np.ndarray:
        vectors = []
        for batch in inputs:
            for text in batch["text"]:
                vector = np.zeros(self.size, dtype=np.float32)
                for one, other in pairwise(text):
                    vector[(7 * ord(one) + ord(other)) % self.size] += 1
                vectors.append(vector)
        return np.array(vectors)


def write_all(folder: Path) -> dict[tuple[str, str], Any]:
    """Write the predictions of two encoders; return (encoder, task) -> mteb's result."""
    results = {}
    for size in (16, 64):
        for task in (OneSTS(), TwoSTS(), TwoReranking()):
            evaluated = mteb.evaluate(
                Letters(size),
                task,
                prediction_folder=folder / f"letters-{size}",
                cache=None,
                co2_tracker=False,
                show_progress_bar=False,
            )
            (results[f"letters-{size}", task.metadata.name],) = evaluated.task_results
    return results
