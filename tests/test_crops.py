"""Crops as positives: which words a run has, what is drawn, and that training resumes exactly."""

from pathlib import Path
from typing import Any

import pytest
import torch

from workbench.config import MixedConfig, SimCSEConfig
from workbench.data import Sentences
from workbench.errors import RunError, SettingError
from workbench.methods.mixed import Mixed
from workbench.methods.simcse import SimCSE
from workbench.methods.splitting import crop_words, random_crops
from workbench.runs import Run
from workbench.training import fit

SMALL = {"batch_size": 8, "max_steps": 6, "eval_steps": 2, "save_steps": 2, "device": "cpu"}
SMALL |= {"precision": "fp32", "positives": "crop"}
TEN = "one two three four five six seven eight nine ten"


def cropping(encoder: Path, **changes: Any) -> SimCSE:
    settings = SMALL | {"encoder": str(encoder)} | changes
    return SimCSE(SimCSEConfig.from_parameters("demo", 0, settings))


def test_a_crop_is_a_run_of_its_share_of_the_words_at_its_place():
    assert crop_words(TEN, 1.0, 0.7) == TEN
    assert crop_words(TEN, 0.5, 0.0) == "one two three four five"
    assert crop_words(TEN, 0.5, 0.999) == "six seven eight nine ten"
    assert crop_words(TEN, 0.3, 0.5) == "five six seven"
    assert crop_words(TEN, 0.0, 0.0) == "one", "a crop has a word at least"
    assert crop_words("alone", 0.2, 0.9) == "alone"
    assert crop_words("", 0.5, 0.5) == ""


def test_drawn_shares_are_uniform_between_the_least_and_all_and_places_reach_both_ends():
    torch.manual_seed(0)
    crops = [crop.split() for crop in random_crops([TEN] * 4000, 0.5)]
    words = TEN.split()
    lengths = {len(crop) for crop in crops}
    assert lengths == {5, 6, 7, 8, 9, 10}
    for crop in crops:
        start = words.index(crop[0])
        assert words[start : start + len(crop)] == crop
    # Rounding gives the two ends half the weight of the lengths between.
    middle = sum(len(crop) == 7 for crop in crops) / len(crops)
    assert middle == pytest.approx(0.2, abs=5 * (0.2 * 0.8 / 4000) ** 0.5)
    starts = {words.index(crop[0]) for crop in crops if len(crop) == 5}
    assert starts == {0, 1, 2, 3, 4, 5}


def test_the_two_views_are_different_runs_of_the_sentence_and_only_the_seed_decides_them(
    tiny_encoder: Path, sentences: Sentences
):
    method = cropping(tiny_encoder, crop_share=0.3)
    method.prepare(sentences)

    def views(seed: int) -> list[str]:
        torch.manual_seed(seed)
        ids = method.collate(range(8))["tokens"]["input_ids"]
        return method.encoder.tokenizer.batch_decode(ids, skip_special_tokens=True)

    drawn = views(0)
    assert drawn == views(0)
    assert drawn != views(1)
    assert drawn[:8] != drawn[8:]
    for text, crop in zip(2 * sentences.sentences[:8], drawn, strict=True):
        assert f" {crop} " in f" {text} "
    whole = cropping(tiny_encoder, crop_share=1.0)
    whole.prepare(sentences)
    twice = cropping(tiny_encoder, positives="dropout")
    twice.prepare(sentences)
    read = [m.collate(range(8))["tokens"]["input_ids"] for m in (whole, twice)]
    assert torch.equal(*read)


def test_a_training_with_crops_that_is_interrupted_ends_with_the_same_weights(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
):
    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 4:
            raise KeyboardInterrupt

    def method() -> SimCSE:
        return cropping(tiny_encoder, logging_steps=1)

    run = Run.open(method().config, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        fit(method(), sentences, run=run, callbacks=[stop])
    resumed = method()
    fit(resumed, sentences, run=run)
    whole = method()
    fit(whole, sentences)
    for name, weight in whole.state_dict().items():
        assert torch.equal(resumed.state_dict()[name], weight), name


def test_views_that_are_different_words_need_no_dropout(caplog: pytest.LogCaptureFixture):
    still = {"encoder": "english-encoder", "pooling": "mean", "device": "cpu", "positives": "crop"}
    crops = SimCSE(SimCSEConfig.from_parameters("demo", 0, still))
    assert crops.encoder.backbone.config.hidden_dropout_prob == 0
    assert "views" not in caplog.text
    lists = {"compose": "none", "info_nce": False, "beta": 0.0, "gamma": 1.0}
    of_lists = still | lists | {"positives": "dropout", "teachers": ["english-encoder"]}
    mixed = Mixed(MixedConfig.from_parameters("demo", 0, of_lists))
    assert mixed.encoder.backbone.config.hidden_dropout_prob == 0


def test_a_run_takes_no_method_of_other_settings(
    tiny_encoder: Path, sentences: Sentences, tmp_path: Path
):
    run = Run.open(cropping(tiny_encoder).config, tmp_path)
    with pytest.raises(RunError, match="has other settings than the method"):
        fit(cropping(tiny_encoder, temperature=0.1), sentences, run=run)
    assert "inputs" not in run.facts()


def test_mixed_with_crops_alone_is_simcse_with_crops(tiny_encoder: Path, sentences: Sentences):
    simcse = cropping(tiny_encoder)
    settings = SMALL | {"encoder": str(tiny_encoder)}
    mixed = Mixed(
        MixedConfig.from_parameters("demo", 0, settings | {"compose": "none", "gamma": 0})
    )
    losses = []
    for method in (simcse, mixed):
        method.prepare(sentences)
        torch.manual_seed(0)
        terms = method.train()(method.collate(range(8)))
        losses.append(terms["info_nce"])
    assert torch.equal(*losses)


@pytest.mark.parametrize(
    ("config", "changes", "remedy"),
    [
        (SimCSEConfig, {"supervised": True}, "supervised=false"),
        (MixedConfig, {"compose": "positive"}, "compose=none"),
        (MixedConfig, {"compose": "none", "cosent": 1.0}, "cosent=0"),
    ],
)
def test_crops_beside_other_views_are_refused(config: Any, changes: dict, remedy: str):
    with pytest.raises(SettingError, match=f"positives=crop.*{remedy}"):
        config.from_parameters("demo", 0, {"positives": "crop"} | changes)
