"""The sets of scored and labelled pairs.

A commit of the hub stands here only when a published source shows it: those of mteb/* and C-MTEB/* are the ones that
the mteb package (2.26) evaluates, the others are named on the hub's own pages.
"""

from collections.abc import Iterator, Mapping

from workbench.data.entry import LABELLED_PAIR, NLI_CLASSES, PAIR, SPLITS, DataSet, Hub, senteval

STS_LICENCE = "scores CC BY-SA 4.0, each text its own (MSR, EMM headlines, DEFT, StackExchange CC BY-SA 3.0)"
STS = {  # year -> pairs, commit of mteb/sts<year>-sts
    12: (3108, "a0d554a64d88156834ff5ae9920b964011b16384"),
    13: (1500, "7e90230a92c190f1bf69ae9002b8cea547a64cca"),
    14: (3750, "6031580fec1f6af667f0bd2da0a551cf4f0b2375"),
    15: (3000, "ae752c7c21bf194d8b67fd573edf7ae58183cbe3"),
    16: (1186, "4d8694f8f0e0100860b497b999b3dbed754a0513"),
}
STSB = {"train": (5749, "train"), "dev": (1500, "validation"), "test": (1379, "test")}
STSB_COMMIT = "b0fddb56ed78048fa8b90373c8a3cfc37b684831"
RAW_COLUMNS = {"score": "score", "sentence1_raw": "sentence1", "sentence2_raw": "sentence2"}
NOT_PREPARED = "as published, not tokenised as SentEval does, no subsets"
CHINESE_LICENCE = "not stated; research use"
CHINESE: Mapping[str, tuple[str, str, dict[str, int], dict[str, int]]] = {  # repo, commit, local rows, hub rows
    "lcqmc": (
        "C-MTEB/LCQMC",
        "17f9b096f80380fce5ed12a9be8be7784b337daf",
        {},
        {"train": 238766, "dev": 8802, "test": 12500},
    ),
    "bq": (
        "C-MTEB/BQ",
        "e3dda5e115e487b39ec7e618c0c6a29137052a55",
        {},
        {"train": 100000, "dev": 10000, "test": 10000},
    ),
    "atec": (
        "C-MTEB/ATEC",
        "0f319b1142f28d00e055a6770f3f726ae9b7d865",
        {"train": 24061},
        {"train": 62477, "dev": 20000, "test": 20000},
    ),
    "afqmc": ("C-MTEB/AFQMC", "b44c3b011063adb25877c13823db83bb193913c4", {}, {"train": 34334, "dev": 4316}),
    "pawsx": (
        "mteb/PAWSX",
        "bd129d4230ee0551b5469c566bced8da75abae0a",
        {},
        {"train": 49401, "dev": 2000, "test": 2000},
    ),
    "stsb": ("mteb/STSB", "e036defee8f190911de6fc825a944b928c8cda53", {}, {"train": 5231, "dev": 1458, "test": 1361}),
}
CHINESE_NOTES = {
    "atec": "a re-split; a local atec.train holds no pair of dev or test",
    "afqmc": "column in_atec_eval, where there is one, marks pairs of ATEC dev or test",
}


def _sts() -> Iterator[DataSet]:
    for year, (rows, commit) in STS.items():
        yield DataSet(
            f"sts{year}-test",
            "pairs",
            f"STS{year}, SentEval's subsets",
            (f"sts/sts{year}.test.tsv.gz",),
            STS_LICENCE,
            PAIR | {"subset": "subset"},
            rows,
            scale=(0.0, 5.0),
            ids=("subset", "line"),
            hub=senteval(rows),
            hub_raw=Hub(f"mteb/sts{year}-sts", commit, "test", columns=RAW_COLUMNS, rows=rows, note=NOT_PREPARED),
        )
    for split, (rows, theirs) in STSB.items():
        yield DataSet(
            f"stsb-{split}",
            "pairs",
            "STS-Benchmark",
            (f"sts/stsb.{split}.tsv.gz",),
            STS_LICENCE,
            PAIR,
            rows,
            scale=(0.0, 5.0),
            ids=("source_year", "source_dataset", "sid"),
            hub=senteval(rows),
            hub_raw=Hub(
                "mteb/stsbenchmark-sts", STSB_COMMIT, theirs, columns=RAW_COLUMNS, rows=rows, note=NOT_PREPARED
            ),
        )
    for split, rows in {"train": 4500, "trial": 500, "test": 4927}.items():
        yield DataSet(
            f"sick-{split}",
            "pairs",
            "SICK relatedness",
            (f"sts/sick.{split}.tsv.gz",),
            "CC BY-NC-SA 3.0",
            PAIR,
            rows,
            scale=(1.0, 5.0),
            ids=("pair_id",),
            hub=senteval(rows),
            note="mteb/sickr-sts is another cut: its test split joins all 9,927 pairs",
        )


def _paraphrases() -> Iterator[DataSet]:
    for split, theirs, rows in (("train", "train", 49401), ("dev", "validation", 8000), ("test", "test", 8000)):
        columns = {"id": "id", "label": "label", "sentence1": "sentence1", "sentence2": "sentence2"}
        yield DataSet(
            f"paws-{split}",
            "pairs",
            "PAWS-Wiki, labeled final",
            (f"pairs/paws_wiki.{split}.tsv.gz",),
            "free for any use (Google); text CC BY-SA 3.0",
            LABELLED_PAIR,
            rows,
            scale=(0.0, 1.0),
            ids=("id",),
            hub=Hub(
                "google-research-datasets/paws",
                "161ece9501cf0a11f3e48bd356eaa82de46d6a09",
                theirs,
                "labeled_final",
                columns=columns,
                rows=rows,
            ),
        )
    for split, rows in {"train": 4076, "test": 1725}.items():
        yield DataSet(
            f"mrpc-{split}",
            "pairs",
            "MRPC, SentEval's form",
            (f"transfer/mrpc.{split}.tsv.gz",),
            "Microsoft Research",
            LABELLED_PAIR,
            rows,
            scale=(0.0, 1.0),
            ids=("id1", "id2"),
            hub=senteval(rows),
        )


def _chinese() -> Iterator[DataSet]:
    for name, (repo, commit, local, hub) in CHINESE.items():
        gold = "score" if name == "stsb" else "label"
        columns = {gold: "score", "sentence1": "sentence1", "sentence2": "sentence2"}
        for split, rows in hub.items():
            yield DataSet(
                f"zh-{name}-{split}",
                "pairs",
                f"Chinese {repo.split('/')[1]}",
                (f"zh/{name}.{split}.tsv.gz",),
                CHINESE_LICENCE,
                PAIR | {"gold": gold},
                local.get(split, rows),
                scale=(0.0, 5.0) if name == "stsb" else (0.0, 1.0),
                ids=("id",) if name == "pawsx" else (),
                hub=Hub(repo, commit, SPLITS[split], columns=columns, rows=rows),
                note=CHINESE_NOTES.get(name, ""),
            )


def _entailment() -> Iterator[DataSet]:
    roles = {"sentence1": "premise", "sentence2": "hypothesis", "gold": "label"}
    columns = {"label": "label", "premise": "premise", "hypothesis": "hypothesis"}
    labels = {"0": "entailment", "1": "neutral", "2": "contradiction", "-1": "-"}
    for split, rows, all_rows in (("train", 549367, 550152), ("dev", 9842, 10000), ("test", 9824, 10000)):
        yield DataSet(
            f"snli-{split}",
            "pairs",
            "SNLI, ordered classes",
            (f"nli/snli.{split}.tsv.gz",),
            "CC BY-SA 4.0",
            roles,
            rows,
            scale=(0.0, 2.0),
            classes=NLI_CLASSES,
            unlabelled="-",
            hub=Hub(
                "stanfordnlp/snli",
                "cdb5c3d5eed6ead6e5a341c8e56e669bb666725b",
                SPLITS[split],
                "plain_text",
                columns=columns,
                labels=labels,
                rows=all_rows,
                note="as published, not tokenised",
            ),
        )
    for split, rows in {"train": 942069, "dev": 19657, "test": 19656}.items():
        yield DataSet(
            f"allnli-{split}",
            "pairs",
            "SNLI and MultiNLI together, ordered classes",
            (f"nli/allnli.{split}.tsv.gz",),
            "SNLI CC BY-SA 4.0; MNLI OANC and others",
            roles,
            rows,
            scale=(0.0, 2.0),
            classes=NLI_CLASSES,
            hub=Hub(
                "sentence-transformers/all-nli",
                "d482672c8e74ce18da116f430137434ba2e52fab",
                split,
                "pair-class",
                columns=columns,
                labels=labels,
                rows=rows,
            ),
        )
    for split in ("train", "dev"):
        yield DataSet(
            f"zh-nli-{split}",
            "pairs",
            "Chinese SNLI and MultiNLI, translated (CNSD)",
            (f"zh/nli.{split}.tsv.gz",),
            CHINESE_LICENCE,
            roles,
            scale=(0.0, 2.0),
            classes=NLI_CLASSES,
            unlabelled="-",
            note="github.com/pluto-junzeng/CNSD; not on the hub: put it into a local data root",
        )
    for split, rows in {"train": 8330, "dev": 1000, "test": 2000}.items():
        yield DataSet(
            f"cad-snli-{split}",
            "pairs",
            "counterfactually augmented SNLI (Kaushik et al. 2020)",
            (f"nli/cad_snli.{split}.tsv.gz",),
            "Apache-2.0; SNLI text CC BY-SA 4.0",
            roles,
            rows,
            scale=(0.0, 2.0),
            classes=NLI_CLASSES,
            unlabelled="-",
            note="a few pairs stand in it twice with different labels",
        )


def pair_sets() -> Iterator[DataSet]:
    """Every set of pairs that is not bundled."""
    for group in (_sts, _paraphrases, _entailment, _chinese):
        yield from group()
