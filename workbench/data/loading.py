"""load_*: a set by its name in the catalogue, or a file of the user's own."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from workbench.data import sets
from workbench.data.catalogue import CATALOGUE, find
from workbench.data.entry import DataSet, Kind
from workbench.data.format import Table, parse_table, read_content, read_lines
from workbench.data.sets import LabelledSentences, Pairs, Sentences, Triples
from workbench.data.sources import check_revisions, read
from workbench.errors import DataError

Revisions = Mapping[str, str]
SAMPLE_SEED = 0  # of train_limit: a run's own seed must not change what it is trained on
TABLES = (".tsv", ".tsv.gz")
LINES = (".txt", ".txt.gz")
GOLD_COLUMNS = ("score", "label", "gold")


def load_sentences(
    name: str | Path, *, limit: int | None = None, seed: int = 0, revisions: Revisions | None = None
) -> Sentences:
    """Unlabelled sentences: a set of the catalogue, a .txt file (one a line) or a .tsv file with a column sentence.

    name: of the catalogue, or a path.  limit: at most so many, drawn with `seed` and kept in order; None: all.
    revisions: hub id -> git revision, instead of the catalogue's.  Raises DataError.
    """
    path = own_file(name)
    if path is None:
        entry = find(str(name), "sentences")
        table, source = read(entry, revisions=revisions)
    else:
        entry, table, source = _own(path, "sentences", {"sentence": "sentence"})
    return sets.sample(sets.as_sentences(entry, table, source), limit, seed)


def load_pairs(
    name: str | Path,
    *,
    text: Literal["prepared", "raw"] = "prepared",
    scale: tuple[float, float] | None = None,
    revisions: Revisions | None = None,
) -> Pairs:
    """Scored pairs: a set of the catalogue, or a .tsv file with columns sentence1, sentence2 and score (or label).

    text: of STS12-16 and STS-B, "prepared" is what SentEval and so every paper here scores (Moses tokens, lower case),
    "raw" the text as published; other sets have one form.  scale: of a file of your own; None: the range of its gold.
    revisions: hub id -> git revision, instead of the catalogue's.  Raises DataError.
    """
    if text not in ("prepared", "raw"):
        raise DataError(f"text {text!r}; allowed are 'prepared' (as SentEval scores it) and 'raw' (as published)")
    path = own_file(name)
    if path is None:
        if scale is not None:
            raise DataError(f"{name}: the catalogue knows its scale; give scale only with a file of your own")
        entry = find(str(name), "pairs")
        table, source = read(entry, raw=text == "raw", revisions=revisions)
        return sets.as_pairs(entry, table, source, raw=text == "raw")
    entry, table, source = _own(path, "pairs", {"sentence1": "sentence1", "sentence2": "sentence2"}, scale)
    pairs = sets.as_pairs(entry, table, source)
    if scale is None:
        object.__setattr__(pairs, "source", f"{source}; scale {pairs.scale} is the range of its own gold")
    return pairs


def load_triples(name: str | Path, *, revisions: Revisions | None = None) -> Triples:
    """Anchors with a positive and a hard negative: of the catalogue, or a .tsv file with sent0, sent1, hard_neg."""
    path = own_file(name)
    if path is None:
        entry = find(str(name), "triples")
        return sets.as_triples(entry, *read(entry, revisions=revisions))
    return sets.as_triples(
        *_own(path, "triples", {"anchor": "sent0", "positive": "sent1", "hard_negative": "hard_neg"})
    )


def load_labelled(name: str, *, revisions: Revisions | None = None) -> LabelledSentences:
    """A single-sentence transfer task: mr, cr, subj, mpqa, sst2-<split>, trec-<split>. MRPC is pairs."""
    entry = find(name, "labelled")
    return sets.as_labelled(entry, *read(entry, revisions=revisions))


def load_training(config: Any) -> Sentences | Pairs | Triples:
    """The set that `config.train` names, at most `config.train_limit` rows of it.

    The sample is drawn with a fixed seed, not the run's: runs of several seeds train on the same rows.
    """
    revisions = _of_data(config)
    loaders = {"sentences": load_sentences, "pairs": load_pairs, "triples": load_triples}
    kind = kind_of(config.train, *loaders)
    return sets.sample(
        loaders[kind](config.train, revisions=revisions), getattr(config, "train_limit", None), SAMPLE_SEED
    )


def load_dev(config: Any) -> Pairs:
    """The scored pairs that `config.dev` names."""
    return load_pairs(config.dev, revisions=_of_data(config))


def load_suites(config: Any) -> dict[str, Pairs]:
    """The sets of `config.suites` by name, in their order; all are read, and so checked, before anything is trained."""
    revisions = _of_data(config)
    suites: dict[str, Pairs] = {}
    for name in config.suites:
        pairs = load_pairs(name, revisions=revisions)
        if pairs.name in suites:
            raise DataError(f"suites: two sets are called {pairs.name}; name each once")
        suites[pairs.name] = pairs
    return suites


def _of_data(config: Any) -> dict[str, str]:
    """The revisions that are of data sets; the encoder's and the teachers' are theirs. DataError for one of neither."""
    models = {getattr(config, "encoder", ""), getattr(config, "base", ""), *getattr(config, "teachers", [])}
    revisions = {
        name: value for name, value in (getattr(config, "revisions", None) or {}).items() if name not in models
    }
    check_revisions(revisions)
    return revisions


def own_file(name: str | Path) -> Path | None:
    """The path when `name` is a file of the user's own rather than a name of the catalogue."""
    text = str(name)
    if text.endswith((*TABLES, *LINES)):
        path = Path(text).expanduser()
        if not path.is_file():
            raise DataError(f"{path}: no such file; give a path to a .tsv, .tsv.gz or .txt, or a name of the catalogue")
        return path
    if isinstance(name, Path) or "/" in text or text.endswith((".csv", ".json", ".jsonl", ".parquet")):
        raise DataError(
            f"{text}: a file of your own is a .tsv or .tsv.gz with a header, or a .txt with one sentence a line; "
            "convert it (data/README.md has the format)"
        )
    return None


def _own(
    path: Path, kind: Literal["sentences", "pairs", "triples"], roles: dict[str, str], scale: Any = None
) -> tuple[DataSet, Table, str]:
    content = read_content(path)
    if path.name.endswith(LINES):
        if kind != "sentences":
            raise DataError(f"{path}: a .txt holds sentences, one a line; {kind} need a .tsv with a header")
        lines = [line.replace("\t", " ") for line in read_lines(content.replace(b"\r\n", b"\n"), str(path))]
        table = Table({"sentence": lines}, str(path), hashlib.sha256(content).hexdigest(), first_line=1)
    else:
        table = parse_table(content.replace(b"\r\n", b"\n"), str(path))
    if kind == "pairs":
        roles = roles | {"gold": next((name for name in GOLD_COLUMNS if name in table.columns), GOLD_COLUMNS[0])}
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    if stem in CATALOGUE:
        raise DataError(
            f"{path}: {stem} is the name of a set of the catalogue, and scores would be taken for its; rename it"
        )
    return DataSet(stem, kind, "your own", (str(path),), "your own", roles, scale=scale), table, f"file {path}"


def kind_of(name: str, *kinds: str) -> Kind:
    """What a set of the catalogue (one of `kinds` where given) or a file of the user's own holds; DataError."""
    path = own_file(name)
    if path is None:
        return find(name, *kinds).kind
    if path.name.endswith(LINES):
        return "sentences"
    header = read_content(path).partition(b"\n")[0].decode(errors="replace").rstrip("\r").split("\t")
    return "pairs" if "sentence1" in header else "triples" if "sent0" in header else "sentences"
