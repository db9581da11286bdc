"""Reads one set out of SentEval's archive (senteval.tar, as SimCSE publishes it) into our columns.

The text is what SentEval scores: prepared files, words joined by single spaces. Nothing is unpacked to disk.
"""

import tarfile
from collections.abc import Callable
from pathlib import Path

from workbench.errors import DataError

SUBSETS = {  # as SentEval's evaluators list them; STS13 lacks SMT (licence)
    "sts12": ("MSRpar", "MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews"),
    "sts13": ("FNWN", "headlines", "OnWN"),
    "sts14": ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"),
    "sts15": ("answers-forums", "answers-students", "belief", "headlines", "images"),
    "sts16": ("answer-answer", "headlines", "plagiarism", "postediting", "question-question"),
}
POLARITY = {  # label 1, label 0
    "mr": ("MR/rt-polarity.pos", "MR/rt-polarity.neg"),
    "cr": ("CR/custrev.pos", "CR/custrev.neg"),
    "subj": ("SUBJ/subj.objective", "SUBJ/subj.subjective"),
    "mpqa": ("MPQA/mpqa.pos", "MPQA/mpqa.neg"),
}
# Tab-separated files: what is put for the split in their path, the names of their first columns, lines of header.
TABLES = {
    "stsb": (
        "STSBenchmark/sts-{}.csv",
        ("genre", "source_dataset", "source_year", "sid", "score", "sentence1", "sentence2"),
        0,
    ),
    "sick": ("SICK/SICK_{}.txt", ("pair_id", "sentence1", "sentence2", "score", "entailment"), 1),
    "sst2": ("SST/binary/sentiment-{}", ("sentence", "label"), 0),
    "mrpc": ("MRPC/msr_paraphrase_{}.txt", ("label", "id1", "id2", "sentence1", "sentence2"), 1),
}
TREC = {"train": "train_5500.label", "test": "TREC_10.label"}

Columns = dict[str, list[str]]
Rows = list[list[str]]
Lines = Callable[[str], list[str]]  # the lines of one file of the archive


def read_senteval(archive: Path, name: str) -> Columns:
    """The columns of set `name` ("sts12-test", "mr", ...) in `archive`; DataError when a file of it is missing."""
    task, _, split = name.partition("-")
    try:
        with tarfile.open(archive) as tar:
            members = {member.name: member for member in tar.getmembers() if member.isfile()}

            def lines(path: str) -> list[str]:
                member = next((members[key] for key in members if f"/{key}".endswith(f"/{path}")), None)
                handle = tar.extractfile(member) if member else None
                if handle is None:
                    raise DataError(f"{archive}: no file {path} in the archive; it is not SentEval's, or damaged")
                return _decode(handle.read()).removesuffix("\n").split("\n")

            return _columns(task, split, lines)
    except tarfile.TarError as error:
        raise DataError(f"{archive}: not an intact tar archive ({error}); fetch it again") from error


def _decode(content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # TREC and some of the polarity files; SentEval reads them so
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def _columns(task: str, split: str, lines: Lines) -> Columns:
    if task in SUBSETS:
        return _sts(task, lines)
    if task in POLARITY:
        return _polarity(task, lines)
    return _trec(split, lines) if task == "trec" else _table(task, split, lines)


def _transposed(names: tuple[str, ...], rows: Rows) -> Columns:
    return {name: [" ".join(row[i].split()) for row in rows] for i, name in enumerate(names)}


def _fields(lines: Lines, path: str, count: int, *, header: int = 0) -> Rows:
    """The tab-separated rows of a file, at least `count` fields each: some end in a licence note."""
    rows = [line.split("\t") for line in lines(path)[header:]]
    short = next((i for i, row in enumerate(rows) if len(row) < count), None)
    if short is not None:
        raise DataError(f"{path}, line {short + 1 + header}: {len(rows[short])} fields, {count} expected")
    return rows


def _table(task: str, split: str, lines: Lines) -> Columns:
    """A file of columns; in ours the sentences come last."""
    path, names, header = TABLES[task]
    name = "test_annotated" if (task, split) == ("sick", "test") else split
    columns = _transposed(names, _fields(lines, path.format(name), len(names), header=header))
    return {name: columns[name] for name in sorted(names, key=lambda name: name.startswith("sentence"))}


def _sts(task: str, lines: Lines) -> Columns:
    rows = []
    for subset in SUBSETS[task]:
        folder = f"{task.upper()}-en-test"
        pairs = _fields(lines, f"{folder}/STS.input.{subset}.txt", 2)
        gold = lines(f"{folder}/STS.gs.{subset}.txt")
        if len(gold) != len(pairs):
            raise DataError(f"{folder}/STS.gs.{subset}.txt: {len(gold)} scores for {len(pairs)} pairs")
        name = subset.removeprefix("surprise.")
        # A blank score marks a pair that was never graded: STS15 and STS16 have many.
        rows += [[name, str(i), g, *pair[:2]] for i, (g, pair) in enumerate(zip(gold, pairs, strict=True)) if g.strip()]
    return _transposed(("subset", "line", "score", "sentence1", "sentence2"), rows)


def _polarity(task: str, lines: Lines) -> Columns:
    rows = [[label, line] for label, path in zip("10", POLARITY[task], strict=True) for line in lines(path)]
    return _transposed(("label", "sentence"), rows)


def _trec(split: str, lines: Lines) -> Columns:
    rows = []
    for line in lines(f"TREC/{TREC[split]}"):
        labels, _, sentence = line.partition(" ")
        coarse, _, fine = labels.partition(":")
        rows.append([coarse, fine, sentence])
    return _transposed(("label", "fine_label", "sentence"), rows)
