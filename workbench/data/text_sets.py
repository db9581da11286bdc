"""The bundled sets, the training texts and the transfer tasks."""

from collections.abc import Iterator

from workbench.data.entry import BINARY, PAIR, SIMCSE_COMMIT, SIMCSE_REPO, TREC_CLASSES, DataSet, Hub, senteval

TRANSFER_LICENCE = "research use (unchecked)"


def bundled_sets() -> Iterator[DataSet]:
    """The sets that the project carries."""
    sentence = {"sentence": "sentence"}
    world = "the bundled world of sentences"
    yield DataSet("world", "sentences", world, ("world/world_sentences.tsv.gz",), "MIT", sentence, 30000, bundled=True)
    for split, rows in {"train": 4200, "dev": 1750, "test": 1750}.items():
        yield DataSet(
            f"world-{split}",
            "pairs",
            f"{world}, graded",
            (f"world/world.{split}.tsv.gz",),
            "MIT",
            PAIR,
            rows,
            scale=(0.0, 5.0),
            ids=("query_id",),
            bundled=True,
        )
    yield DataSet(
        "ladders-all",
        "pairs",
        "everyday queries, six graded targets each",
        ("ladders/ladders.all.tsv.gz",),
        "MIT",
        PAIR,
        756,
        scale=(0.0, 5.0),
        ids=("query_id",),
        bundled=True,
    )


def training_sets() -> Iterator[DataSet]:
    """Unlabelled sentences and NLI triples."""
    sentence = {"sentence": "sentence"}
    triple = {"anchor": "sent0", "positive": "sent1", "hard_negative": "hard_neg"}
    wiki = tuple(f"wiki/wiki_sentences{part}.tsv.gz" for part in ("", "_2", "_3"))
    yield DataSet("wiki", "sentences", "English Wikipedia, 2015", wiki, "CC BY-SA 3.0", sentence, 2501378)
    yield DataSet(
        "wiki1m",
        "sentences",
        "SimCSE's 10^6 Wikipedia sentences",
        ("wiki/wiki1m_for_simcse.tsv.gz",),
        "CC BY-SA 3.0",
        sentence,
        1000000,
        hub=Hub(SIMCSE_REPO, SIMCSE_COMMIT, file="wiki1m_for_simcse.txt", columns={"sentence": "text"}, rows=1000000),
    )
    yield DataSet(
        "flickr8k",
        "sentences",
        "Flickr8k captions, five an image",
        ("pairs/flickr8k.captions.tsv.gz",),
        "non-commercial research (unchecked)",
        sentence,
        40459,
        note="captions of one image are mutual positives (column image); SICK and STS14/15 hold Flickr captions too",
    )
    yield DataSet(
        "nli-triples",
        "triples",
        "NLI triples from SNLI dev/test and CAD-SNLI",
        ("nli/nli_triples.tsv.gz",),
        "CC BY-SA 4.0",
        triple,
        8603,
        note="holds SNLI dev and test sentences: do not evaluate on SNLI after training on it",
    )
    yield DataSet(
        "nli-simcse",
        "triples",
        "SimCSE's NLI triples (SNLI and MNLI train)",
        ("nli/nli_for_simcse.tsv.gz",),
        "SNLI CC BY-SA 4.0; MNLI OANC and others",
        triple,
        275601,
        hub=Hub(
            SIMCSE_REPO,
            SIMCSE_COMMIT,
            file="nli_for_simcse.csv",
            columns={"sent0": "sent0", "sent1": "sent1", "hard_neg": "hard_neg"},
            rows=275601,
        ),
    )


def transfer_sets() -> Iterator[DataSet]:
    """SentEval's single-sentence tasks."""
    text = {"sentence": "sentence", "label": "label"}
    for name, rows in {"mr": 10662, "cr": 3775, "subj": 10000, "mpqa": 10606}.items():
        yield DataSet(
            name,
            "labelled",
            f"{name.upper()}, 10-fold",
            (f"transfer/{name}.all.tsv.gz",),
            TRANSFER_LICENCE,
            text,
            rows,
            classes=BINARY,
            hub=senteval(rows),
            note="1: objective" if name == "subj" else "1: positive",
        )
    for name, classes, splits in (
        ("sst2", BINARY, {"train": 67349, "dev": 872, "test": 1821}),
        ("trec", TREC_CLASSES, {"train": 5452, "test": 500}),
    ):
        for split, rows in splits.items():
            yield DataSet(
                f"{name}-{split}",
                "labelled",
                name.upper(),
                (f"transfer/{name}.{split}.tsv.gz",),
                TRANSFER_LICENCE,
                text,
                rows,
                classes=classes,
                hub=senteval(rows),
            )
