"""The hub, as a local folder of the same layout: its columns become ours, and its absence is an error with a cure."""

import io
import sys
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import huggingface_hub
import pytest

from workbench import publishing
from workbench.data import CATALOGUE, check, fetch, load_labelled, load_pairs, load_sentences, load_triples
from workbench.errors import DataError

SIMCSE_REPO = "princeton-nlp/datasets-for-simcse"
SENTEVAL = {
    "STS/STS12-en-test/STS.input.MSRpar.txt": "a  cat .\tone cat .\nnever graded\tat all\nlast\tpair\n",
    "STS/STS12-en-test/STS.gs.MSRpar.txt": "4.5\n\n0\n",
    **{
        f"STS/STS12-en-test/STS.{part}.{subset}.txt": {"input": f"x {subset}\ty\n", "gs": "1.0\n"}[part]
        for subset in ("MSRvid", "SMTeuroparl", "surprise.OnWN", "surprise.SMTnews")
        for part in ("input", "gs")
    },
    "STS/STSBenchmark/sts-dev.csv": 'main-news\theadlines\t2015\t0003\t3.20\ta "quoted b\tc\tlicence note\n',
    "SICK/SICK_trial.txt": "pair_ID\tsentence_A\tsentence_B\tscore\tjudgment\n4\tA dog\tA cat\t1.5\tNEUTRAL\n",
    "MR/rt-polarity.pos": "caf\xe9 good\nfine\n",
    "MR/rt-polarity.neg": "bad\n",
    "SST/binary/sentiment-dev": "nice film\t1\ndull film\t0\n",
    "TREC/TREC_10.label": "NUM:dist How far ?\nLOC:city Where ?\n",
    "MRPC/msr_paraphrase_test.txt": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t10\t20\tOne .\tTwo .\r\n",
}


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of hub repositories; no local root; a cache of its own."""
    import datasets

    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    monkeypatch.setenv("WORKBENCH_HUB_MIRROR", str(tmp_path / "hub"))
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    return tmp_path / "hub"


def put(mirror: Path, repo: str, file: str, content: str | bytes) -> None:
    """Writes one file of one hub repository."""
    path = mirror / repo / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def put_senteval(mirror: Path) -> None:
    """Writes SentEval's archive, with the one Latin-1 file that the real one has too."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, text in SENTEVAL.items():
            content = text.encode("latin-1" if name.startswith("MR/") else "utf-8")
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    put(mirror, SIMCSE_REPO, "senteval.tar", packed.getvalue())


def put_parquet(mirror: Path, repo: str, file: str, columns: dict[str, list]) -> None:
    """Writes one parquet file of one hub repository."""
    import pyarrow
    import pyarrow.parquet

    (mirror / repo / file).parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), mirror / repo / file)


def test_prepared_sts_comes_from_sentevals_archive_with_subsets_and_without_ungraded_pairs(mirror: Path) -> None:
    put_senteval(mirror)
    pairs = load_pairs("sts12-test")
    assert pairs.sentence1[:2] == ["a cat .", "last"]
    assert pairs.gold.tolist() == [4.5, 0.0, 1.0, 1.0, 1.0, 1.0]
    assert pairs.subset == ["MSRpar", "MSRpar", "MSRvid", "SMTeuroparl", "OnWN", "SMTnews"]
    assert pairs.pair_id[:3] == ["MSRpar:0", "MSRpar:2", "MSRvid:0"]
    assert "senteval.tar" in pairs.source
    assert "6 rows; published: 3108" in pairs.source


def test_every_kind_of_file_in_sentevals_archive_is_read(mirror: Path) -> None:
    put_senteval(mirror)
    dev = load_pairs("stsb-dev")
    assert (dev[0], dev.pair_id) == (('a "quoted b', "c", 3.2), ["2015:headlines:0003"])
    trial = load_pairs("sick-trial")
    assert (trial[0], trial.extra["entailment"], trial.scale) == (("A dog", "A cat", 1.5), ["NEUTRAL"], (1.0, 5.0))
    mr = load_labelled("mr")
    assert (mr.sentences, mr.label) == (["café good", "fine", "bad"], [1, 1, 0])
    assert load_labelled("sst2-dev")[1] == ("dull film", 0)
    assert load_labelled("trec-test")[0] == ("How far ?", 5)
    assert load_pairs("mrpc-test")[0] == ("One .", "Two .", 1.0)


def test_an_archive_without_the_file_or_that_is_none_is_refused(mirror: Path) -> None:
    put_senteval(mirror)
    with pytest.raises(DataError, match=r"senteval.tar: no file STSBenchmark/sts-test.csv in the archive"):
        load_pairs("stsb-test")
    put(mirror, SIMCSE_REPO, "senteval.tar", b"not a tar" * 1000)
    with pytest.raises(DataError, match=r"senteval.tar: not an intact tar archive"):
        load_pairs("stsb-dev")


def test_hub_labels_and_columns_become_ours(mirror: Path) -> None:
    snli = {"premise": list("abcd"), "hypothesis": list("efgh"), "label": [0, 1, 2, -1]}
    put_parquet(mirror, "stanfordnlp/snli", "plain_text/validation-00000-of-00001.parquet", snli)
    card = "configs:\n- config_name: plain_text\n  data_files:\n  - split: validation\n    path: plain_text/val*\n"
    put(mirror, "stanfordnlp/snli", "README.md", f"---\n{card}---\n")
    pairs = load_pairs("snli-dev")
    assert (pairs.gold.tolist(), pairs.dropped) == ([2.0, 1.0, 0.0], 1)
    lcqmc = {"sentence1": ["甲"], "sentence2": ["乙"], "score": [1]}
    put_parquet(mirror, "C-MTEB/LCQMC", "data/test-00000-of-00001.parquet", lcqmc)
    assert load_pairs("zh-lcqmc-test")[0] == ("甲", "乙", 1.0)


def test_training_files_of_simcse_keep_empty_lines_and_the_word_none(mirror: Path) -> None:
    put(mirror, SIMCSE_REPO, "wiki1m_for_simcse.txt", "one\n\nthree\n")
    put(mirror, SIMCSE_REPO, "nli_for_simcse.csv", 'sent0,sent1,hard_neg\n"a, b",None,NA\n')
    assert load_sentences("wiki1m").sentences == ["one", " ", "three"]
    assert load_triples("nli-simcse")[0] == ("a, b", "None", "NA")


def test_a_hub_set_without_an_expected_column_names_those_it_has(mirror: Path) -> None:
    columns = {"question1": ["甲"], "sentence2": ["乙"], "score": [1]}
    put_parquet(mirror, "C-MTEB/LCQMC", "data/test-00000-of-00001.parquet", columns)
    with pytest.raises(DataError, match="hub C-MTEB/LCQMC: no column sentence1; its columns are question1, sentence2"):
        load_pairs("zh-lcqmc-test")


def test_a_fetched_set_is_served_from_the_local_root_with_the_same_content(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_senteval(mirror)
    from_hub = load_pairs("sts12-test")
    path = fetch("sts12-test", tmp_path / "new root")
    fetch("mr", tmp_path / "new root")
    assert path == tmp_path / "new root" / "sts" / "sts12.test.tsv.gz"
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "new root"))
    monkeypatch.delenv("WORKBENCH_HUB_MIRROR")
    local = load_pairs("sts12-test")
    assert local.source.startswith("local ")
    assert local.checksum == from_hub.checksum
    assert local.pair_id == from_hub.pair_id
    assert check(["sts12-test", "mr"])["sha256"].tolist() == ["ok", "ok"]


def test_what_cannot_be_fetched_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    for name, text in (("world", "is bundled"), ("nli-triples", "is not on the hub"), ("sts12-tset", "sts12-test")):
        with pytest.raises(DataError, match=text):
            fetch(name, tmp_path / "root")
    assert not (tmp_path / "root").exists()


def test_without_a_network_the_error_names_the_hub_id_and_the_cures(
    mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match="no folder C-MTEB/LCQMC in it"):
        load_pairs("zh-lcqmc-test")
    monkeypatch.delenv("WORKBENCH_HUB_MIRROR")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(publishing, "_is_reachable", lambda _: False)
    asked: list[str] = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", asked.append)  # before the client tries again
    for name, repo in (("zh-lcqmc-test", "C-MTEB/LCQMC"), ("sts12-test", SIMCSE_REPO)):
        with pytest.raises(DataError) as caught:
            load_pairs(name)
        assert not asked
        text = str(caught.value)
        assert "\n" not in text
        assert f"hub set {repo} at revision" in text
        assert all(cure in text for cure in ("network", f"workbench data fetch {name}", "WORKBENCH_DATA"))


@pytest.mark.parametrize("fails", [0, 1, 2])
def test_the_hubs_client_retries_unless_the_hub_does_not_answer_twice(
    fails: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter([OSError("no route")] * fails + [None] * 2)

    class Session:
        def head(self, *_: object, **__: object) -> None:
            if problem := next(answers):
                raise problem

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.get_session", Session)
    monkeypatch.setattr("time.sleep", lambda _: None)
    publishing._is_reachable.cache_clear()
    with publishing.reading_hub():
        assert huggingface_hub.is_offline_mode() is (fails == 2)
    assert not huggingface_hub.is_offline_mode()
    said = "huggingface.co does not answer" if fails == 2 else "not there"
    with pytest.raises(OSError, match=said), publishing.reading_hub():
        raise FileNotFoundError("not there; set HF_HUB_OFFLINE=0" if fails == 2 else "not there")
    publishing._is_reachable.cache_clear()


def test_a_network_that_is_not_there_when_a_set_is_read_is_not_kept_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    class Datasets(ModuleType):
        """As the real module, it reads whether there is a network when it is loaded, and never again."""

        def __getattr__(self, name: str) -> Any:
            if name != "load_dataset":
                raise AttributeError(name)
            asked.append(huggingface_hub.is_offline_mode())
            return self.read

        def read(self, *_: object, **__: object) -> None:
            asked.append(huggingface_hub.is_offline_mode())
            raise OSError("set HF_HUB_OFFLINE=0")

    monkeypatch.setitem(sys.modules, "datasets", Datasets("datasets"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(publishing, "_is_reachable", lambda _: False)
    with pytest.raises(DataError, match=r"\(ConnectionError: https://huggingface.co does not answer\)"):
        load_pairs("zh-lcqmc-test")
    assert asked == [False, True], "loaded outside, read inside"


def test_a_damaged_local_file_never_falls_back_to_the_hub(
    mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_senteval(mirror)
    (tmp_path / "root" / "sts").mkdir(parents=True)
    (tmp_path / "root" / "sts" / "stsb.dev.tsv.gz").write_bytes(b"")
    monkeypatch.setenv("WORKBENCH_DATA", str(tmp_path / "root"))
    with pytest.raises(DataError, match="the file is empty"):
        load_pairs("stsb-dev")
    assert load_pairs("sick-trial").source.startswith("hub ")


def test_a_revision_of_the_user_is_asked_for_and_the_commit_that_served_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import datasets

    asked: dict[str, object] = {}
    commit = "0123456789abcdef0123456789abcdef01234567"

    def load_dataset(path: str, name: str | None, **options: object) -> datasets.Dataset:
        asked.update(options, path=path, name=name)
        served = datasets.Dataset.from_dict({"sentence1": ["甲"], "sentence2": ["乙"], "score": [0]})
        served.info.download_checksums = {f"hf://datasets/{path}@{commit}/data/test.parquet": {}}
        return served

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.delenv("WORKBENCH_DATA", raising=False)
    assert load_pairs("zh-bq-test", revisions={"C-MTEB/BQ": "main"}).source.startswith(f"hub C-MTEB/BQ at {commit}")
    assert (asked["path"], asked["revision"], asked["split"]) == ("C-MTEB/BQ", "main", "test")
    load_pairs("zh-bq-test")
    assert asked["revision"] == CATALOGUE["zh-bq-test"].hub.revision  # pyright: ignore[reportOptionalMemberAccess]


def test_every_hub_revision_of_the_catalogue_is_a_whole_commit() -> None:
    hubs = [entry.hub for entry in CATALOGUE.values() if entry.hub]
    assert hubs
    assert all(len(hub.revision) == 40 and int(hub.revision, 16) for hub in hubs)
    seven = [f"sts{year}-test" for year in range(12, 17)] + ["stsb-test", "sick-test"]
    assert all(CATALOGUE[name].hub for name in seven)


def test_the_readme_names_every_set_and_every_commit() -> None:
    readme = (Path(__file__).resolve().parent.parent / "data" / "README.md").read_text(encoding="utf-8")
    for entry in CATALOGUE.values():
        stem, _, split = entry.name.rpartition("-")
        named = f"`{entry.name}`" in readme or (f"`{stem}-" in readme and f"`-{split}`" in readme)
        assert named or entry.name.startswith("sts1"), entry.name
        assert entry.hub is None or f"| {entry.hub.repo} | {entry.hub.revision} |" in readme, entry.hub
