"""A saved encoder gives one embedding in AutoModel, SentenceTransformer and Encoder; no other file
is lost."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from safetensors import SafetensorError, safe_open
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import LayerNorm, Pooling
from tiny_checkpoints import POSITIONS, WORDS, tiny_architecture, tiny_checkpoint, tiny_sentences
from torch.testing import assert_close
from transformers import AutoModel, AutoTokenizer

from workbench.checkpoints import STEPS
from workbench.encoder import Encoder, _saving
from workbench.errors import EncoderError, SettingError

SENTENCES = [*tiny_sentences(9), " ".join(WORDS * 9)]  # the last one is past the backbone's limit
TEMPLATE = '"{sentence}" sees [MASK] .'
TOLERANCE = {"atol": 1e-5, "rtol": 0.0}


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("checkpoint"))


def saved(
    checkpoint: Path, folder: Path, pooling: str = "cls", **options: object
) -> tuple[Encoder, Path]:
    encoder = Encoder.from_pretrained(
        checkpoint, pooling, template=TEMPLATE if pooling == "mask" else None
    )
    encoder.train().save(folder, **options)
    return encoder.eval(), folder


def written_by_them(
    checkpoint: Path, folder: Path, *, pooling: str = "mean", last: Any = None, **options: Any
) -> Path:
    modules = [Transformer(str(checkpoint)), Pooling(32, pooling), *([last] if last else [])]
    SentenceTransformer(modules=modules, device="cpu", **options).save_pretrained(str(folder))
    return folder


def test_transformers_and_sentence_transformers_read_a_saved_roberta_whole(tmp_path: Path) -> None:
    encoder, folder = saved(
        tiny_checkpoint(tmp_path / "start", "roberta"), tmp_path / "a folder", "avg_first_last"
    )
    reader = SentenceTransformer(str(folder), device="cpu")
    theirs = reader.encode(SENTENCES, convert_to_tensor=True)
    with torch.no_grad():
        assert_close(
            theirs, encoder(encoder.tokenize(SENTENCES, train_length=POSITIONS)), **TOLERANCE
        )
    assert reader.max_seq_length == POSITIONS
    assert not any(AutoModel.from_pretrained(folder, output_loading_info=True)[1].values())


def test_a_pooling_that_sentence_transformers_lacks_is_refused_by_it_not_replaced(
    checkpoint: Path, tmp_path: Path
) -> None:
    encoder, folder = saved(checkpoint, tmp_path / "encoder", "mask")
    with pytest.raises(ValueError, match="MaskPooling"):
        SentenceTransformer(str(folder), device="cpu")
    again = Encoder.from_pretrained(folder)
    assert (again.pooling, again.template) == ("mask", TEMPLATE)
    assert_close(again.encode(SENTENCES), encoder.encode(SENTENCES), **TOLERANCE)


def test_an_explicit_pooling_wins_over_the_saved_one_and_is_logged(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, folder = saved(checkpoint, tmp_path / "encoder", "mean")
    assert Encoder.from_pretrained(folder, "max").pooling == "max"
    assert "was saved with mean; pooling 'max' was asked for" in caplog.text
    _, named = saved(checkpoint, tmp_path / "unsup-simcse-mine", "mean")
    assert Encoder.from_pretrained(named).pooling == "mean", "its files come before its name"
    with pytest.raises(EncoderError, match="pooling is 'average'; choose one of cls, mean"):
        Encoder.from_pretrained(folder, "average")
    with pytest.raises(EncoderError, match="a template needs pooling='mask'"):
        Encoder.from_pretrained(folder, template=TEMPLATE)


@pytest.mark.parametrize("layout", ["old", "new"])
def test_length_and_case_are_those_of_a_sentence_transformers_files(
    checkpoint: Path, tmp_path: Path, layout: str
) -> None:
    folder = written_by_them(checkpoint, tmp_path / "theirs")
    (folder / "sentence_bert_config.json").write_text(
        '{"max_seq_length": 8, "do_lower_case": true}'
    )
    if layout == "new":  # version 6 moves both into the tokenizer's files
        SentenceTransformer(str(folder), device="cpu").save_pretrained(str(tmp_path / "new"))
        folder = tmp_path / "new"
        assert "max_seq_length" not in (folder / "sentence_bert_config.json").read_text()
    sentences = [*SENTENCES, *(sentence.upper() for sentence in SENTENCES)]
    Encoder.from_pretrained(folder).save(tmp_path / "ours")
    for saved_in in (folder, tmp_path / "ours"):
        theirs = SentenceTransformer(str(saved_in), device="cpu")
        expected = theirs.encode(sentences, convert_to_tensor=True, normalize_embeddings=True)
        ours = Encoder.from_pretrained(saved_in)
        assert (ours.max_seq_length, ours.train_length, theirs.max_seq_length) == (8, 8, 8)
        assert_close(ours.encode(sentences), expected, **TOLERANCE)


def test_case_is_kept_by_a_tokenizer_that_makes_its_own_normalizer(tmp_path: Path) -> None:
    """BertTokenizer reads its vocabulary from tokenizer.json, and no normalizer."""
    start = tiny_checkpoint(tmp_path / "start")
    words = sorted(AutoTokenizer.from_pretrained(start).get_vocab())
    cased = transformers.BertTokenizer(
        vocab={w: i for i, w in enumerate(words)}, do_lower_case=False
    )
    cased.save_pretrained(start)
    folder = written_by_them(start, tmp_path / "theirs")
    cuts = folder / "sentence_bert_config.json"
    cuts.write_text('{"max_seq_length": 8, "do_lower_case": true}')
    first = Encoder.from_pretrained(folder)
    first.save(tmp_path / "ours")
    again = Encoder.from_pretrained(tmp_path / "ours")
    again.save(tmp_path / "twice")
    sentences = [sentence.upper() for sentence in SENTENCES]
    for one in (again, Encoder.from_pretrained(tmp_path / "twice")):
        assert_close(one.encode(sentences), first.encode(sentences), **TOLERANCE)
        assert_close(one.encode(SENTENCES), one.encode(sentences), **TOLERANCE)


FOREIGN: dict[str, dict[str, Any]] = {
    "LayerNorm": {"last": LayerNorm(32)},
    "Pooling": {"pooling": "weightedmean"},
    "similarity 'euclidean'": {"similarity_fn_name": "euclidean", "last": Normalize()},
}


def test_a_sentence_transformer_with_more_than_a_pooling_is_refused_without_a_pooling(
    checkpoint: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number, (words, options) in enumerate(FOREIGN.items()):
        folder = written_by_them(checkpoint, tmp_path / str(number), **options)
        with pytest.raises(EncoderError, match=words):
            Encoder.from_pretrained(folder)
        assert Encoder.from_pretrained(folder, "mean").pooling == "mean"
        assert words in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"prompts": {"query": "the old : "}, "pooling": "max"},
        {"prompts": {"none": ""}, "default_prompt_name": "none"},
        {"similarity_fn_name": "dot", "last": Normalize(), "pooling": "cls"},
    ],
)
def test_the_pooling_of_sentence_transformers_is_read_and_other_prompts_change_nothing(
    checkpoint: Path, tmp_path: Path, options: dict[str, Any]
) -> None:
    folder = written_by_them(checkpoint, tmp_path / "theirs", **options)
    reader = SentenceTransformer(str(folder), device="cpu")
    expected = reader.encode(SENTENCES[:-1], convert_to_tensor=True, normalize_embeddings=True)
    encoder = Encoder.from_pretrained(folder)
    assert encoder.pooling == options.get("pooling", "mean")
    assert_close(encoder.encode(SENTENCES[:-1]), expected, **TOLERANCE)


def test_a_cross_encoder_of_sentence_transformers_is_no_encoder(
    checkpoint: Path, tmp_path: Path
) -> None:
    CrossEncoder(str(checkpoint), device="cpu").save_pretrained(str(tmp_path / "theirs"))
    with pytest.raises(EncoderError, match=r"was saved with .*ForSequenceClassification"):
        Encoder.from_pretrained(tmp_path / "theirs")


def test_an_encoder_is_not_replaced_by_whole_numbers(checkpoint: Path, tmp_path: Path) -> None:
    encoder, folder = saved(checkpoint, tmp_path / "saved")
    before = (folder / "model.safetensors").read_bytes()
    for dtype in (torch.int8, torch.bool, torch.float8_e4m3fn):
        with pytest.raises(SettingError, match=f"no dtype '{dtype}' of saved weights"):
            encoder.save(folder, dtype=dtype)
    assert (folder / "model.safetensors").read_bytes() == before


def test_only_safetensors_and_text_are_written_and_half_precision_halves_them(
    checkpoint: Path, tmp_path: Path
) -> None:
    encoder, full = saved(checkpoint, tmp_path / "full")
    _, half = saved(checkpoint, tmp_path / "half", dtype=torch.float16)
    for folder in (full, half):
        assert {path.suffix for path in folder.rglob("*") if path.is_file()} == {
            ".json",
            ".md",
            ".safetensors",
        }
        (tmp_path / "usual").touch()
        usual = (tmp_path / "usual").stat().st_mode & 0o444
        assert all(path.stat().st_mode & 0o444 == usual for path in folder.rglob("*")), (
            "others may read what they may read of any file"
        )
    with safe_open(half / "model.safetensors", "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.float16}  # noqa: SIM118 - no dict
    assert_close(
        Encoder.from_pretrained(half).encode(SENTENCES),
        encoder.encode(SENTENCES),
        atol=5e-3,
        rtol=0.0,
    )
    assert not [key for key in json.loads((full / "config.json").read_text()) if "attn" in key]


def test_the_card_has_the_facts_given_no_html_and_no_path_of_this_machine(
    checkpoint: Path, tmp_path: Path
) -> None:
    card = {
        "license": "mit",
        "base_model": "english-encoder",
        "datasets": [str(tmp_path / "my.txt"), "stsb-train", "world", "owner/set"],
        "tags": ["simcse"],
        "title": "SimCSE <script>alert(1)</script>",
        "description": f"From {checkpoint}, and C:\\data\\my.txt.\n\n# No title",
    }
    _, folder = saved(checkpoint, tmp_path / "encoder", card=card)
    text = (folder / "README.md").read_text()
    assert "<" not in text
    assert str(tmp_path.parent) not in text + (folder / "config.json").read_text()
    assert f"From {checkpoint.name}, and my.txt. # No title\n" in text
    header = yaml.safe_load(text.split("---")[1])
    assert set(header) == {"library_name", "pipeline_tag", "tags", "license", "datasets"}, (
        "no bundled base model"
    )
    assert header["datasets"] == ["princeton-nlp/datasets-for-simcse", "owner/set"]
    assert {"simcse", "sentence-transformers"} <= set(header["tags"])
    with pytest.raises(EncoderError, match="no field 'licence'; it has language, license"):
        saved(checkpoint, tmp_path / "none", card={"licence": "mit"})
    assert not (tmp_path / "none").exists()


def test_what_was_saved_is_taken_back_and_nothing_else_is(checkpoint: Path, tmp_path: Path) -> None:
    encoder, folder = saved(checkpoint, tmp_path / "encoder", "mean")
    rows = encoder.encode(SENTENCES)
    for change in (torch.nn.Module.double, torch.nn.Module.float):
        with torch.no_grad():
            for parameter in change(encoder).parameters():
                parameter.add_(0.1)
        encoder.restore(folder)
        assert_close(encoder.encode(SENTENCES), rows, **TOLERANCE)
    kept = {name: value.clone() for name, value in encoder.backbone.state_dict().items()}
    for layers in (2, 4):
        other = tiny_checkpoint(tmp_path / str(layers), layers=layers)
        with pytest.raises(EncoderError, match=r"is of another model \(see encoder\.layer\.[23]"):
            encoder.restore(other)
    assert all(
        torch.equal(value, kept[name]) for name, value in encoder.backbone.state_dict().items()
    )
    with pytest.raises(EncoderError, match=r"model\.safetensors cannot be read: .*give the folder"):
        encoder.restore(tmp_path)


ARCHITECTURES = [
    "Albert",
    "DebertaV2",
    "DistilBert",
    "Electra",
    "MPNet",
    "ModernBert",
    "XLMRoberta",
]


@pytest.mark.parametrize("kind", ARCHITECTURES)
def test_other_architectures_are_loaded_saved_and_restored_too(tmp_path: Path, kind: str) -> None:
    tiny_architecture(tmp_path / "start", getattr(transformers, f"{kind}Config"))
    encoder = Encoder.from_pretrained(tmp_path / "start", "mean")
    rows = encoder.encode(SENTENCES[:-1])
    encoder.save(tmp_path / "saved")
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.1)
    encoder.restore(tmp_path / "saved")
    assert_close(encoder.encode(SENTENCES[:-1]), rows, **TOLERANCE)
    assert_close(
        Encoder.from_pretrained(tmp_path / "saved").encode(SENTENCES[:-1]), rows, **TOLERANCE
    )


def test_a_saved_encoder_is_replaced_whole_or_not_at_all(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "encoder"
    saved(checkpoint, folder, "avg_first_last")
    before = {path.name: path.read_bytes() for path in folder.glob("*.json")}
    encoder = Encoder.from_pretrained(checkpoint, "cls")
    for full in (
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("No space left on device"),
    ):

        def full_disk(*_: object, full: Exception = full, **__: object) -> str:
            raise full

        with monkeypatch.context() as patch:
            patch.setattr(_saving, "write_card", full_disk)
            with pytest.raises(EncoderError, match="No space left on device"):
                encoder.save(folder)
    assert {path.name: path.read_bytes() for path in folder.glob("*.json")} == before
    encoder.save(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["encoder"]  # nothing half-written stays
    assert not (folder / "1_WeightedLayerPooling").exists()
    assert Encoder.from_pretrained(folder).pooling == "cls"


def test_a_saved_encoder_names_no_code_of_its_start(checkpoint: Path, tmp_path: Path) -> None:
    encoder = Encoder.from_pretrained(checkpoint)
    encoder.backbone.config.auto_map = {"AutoModel": "somebody/else--module.Model"}
    encoder.save(tmp_path / "saved")
    assert "auto_map" not in (tmp_path / "saved" / "config.json").read_text()


def test_files_that_are_no_encoder_are_never_replaced(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "dear.txt").write_text("dear")
    encoder = Encoder.from_pretrained(checkpoint)
    for target in (tmp_path / "letters", tmp_path / "letters" / "dear.txt"):
        with pytest.raises(EncoderError, match="no saved encoder"):
            encoder.save(target)
    with pytest.raises(EncoderError, match="cannot be written"):
        encoder.save(tmp_path / "letters" / "dear.txt" / "inside")
    assert (tmp_path / "letters" / "dear.txt").read_text() == "dear"
    # Many things beside encoders have a config.json, such as a site and a run.
    (tmp_path / "letters" / "config.json").write_text("{}")
    with pytest.raises(EncoderError, match=r"other files \(.*dear.txt"):
        encoder.save(tmp_path / "letters")
    # What JupyterLab and macOS write when somebody looks at an encoder is no other file.
    seen = tmp_path / "seen"
    encoder.save(seen)
    (seen / ".ipynb_checkpoints").mkdir()
    (seen / ".ipynb_checkpoints" / "README-checkpoint.md").write_text("as it was")
    for hidden in (".DS_Store", "._config.json", "desktop.ini", "Thumbs.db", "Icon\r"):
        (seen / hidden).write_text("")
    encoder.save(seen)
    assert not (seen / ".ipynb_checkpoints").exists()
    (tmp_path / "readme").mkdir()
    (tmp_path / "readme" / "README.md").write_text("mine")
    with pytest.raises(EncoderError, match=r"encoder: there is no README\.md .*left as it is"):
        encoder.save(tmp_path / "readme")
    # Other libraries write the same names, and perhaps a card: their head would be lost.
    (seen / "README.md").write_text("CrossEncoder('me/mine')")
    with pytest.raises(EncoderError, match=r"no README\.md with the code of one"):
        encoder.save(seen)
    (seen / "README.md").unlink()
    with pytest.raises(EncoderError, match="left as it is"):
        encoder.save(seen)
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    encoder.save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    encoder.save(tmp_path / "empty")
    assert Encoder.from_pretrained(tmp_path / "empty").pooling == "cls"


def test_a_pooling_without_a_form_for_sentence_transformers_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = Encoder.from_pretrained(tiny_checkpoint(tmp_path / "base"), "mean", device="cpu")
    monkeypatch.delitem(STEPS, "mean")
    with pytest.raises(EncoderError, match=r"pooling .mean. cannot be saved: .steps. .* no entry"):
        encoder.save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
