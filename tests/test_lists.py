"""Training on graded lists: which queries, which targets, which loss."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from workbench import Encoder, Lists, ListsConfig, load_pairs, load_training, losses
from workbench.data import Pairs
from workbench.data._sets import sample_queries
from workbench.errors import DataError
from workbench.metrics import ranking_groups


def prepared(encoder: Path, data: Pairs, **settings: Any) -> Lists:
    given = {
        "encoder": str(encoder),
        "device": "cpu",
        "precision": "fp32",
        "dropout": 0.0,
        "pooling": "cls",
    }
    method = Lists(ListsConfig.from_parameters("demo", 0, given | settings))
    method.prepare(data)
    return method


def value(method: Lists, rows: list[int]) -> Tensor:
    (loss,) = method(method.collate(rows)).values()
    return loss.detach()


def expected(encoder: Encoder, data: Pairs, rows: list[int], ranking: str) -> float:
    """Return the mean of the losses of single lists, each of its own length."""
    groups, found = list(ranking_groups(data.sentence1, data.sentence2, data.gold).values()), []
    for row in rows:
        query, *targets = encoder.encode([groups[row].query, *groups[row]])
        cosines, gold = torch.stack(targets) @ query, torch.from_numpy(groups[row].gold)[None]
        scaled = (gold / 5).float()
        found.append(
            {
                "listnet": lambda s=cosines[None], g=scaled: losses.listnet(
                    s, g, student_temperature=0.1, teacher_temperature=0.3, exclude_positive=False
                ),
                "listmle": lambda s=cosines[None], g=gold: losses.graded_listmle(
                    s, g, temperature=0.1
                ),
                "cosent": lambda s=cosines, g=gold[0]: losses.cosent(s, g, scale=10.0),
                "approx_ndcg": lambda s=cosines[None], g=scaled: losses.approx_ndcg(
                    s, 5 * g, temperature=0.1
                ),
            }[ranking]().item()
        )
    return float(np.mean(found))


@pytest.mark.parametrize("ranking", ["listnet", "listmle", "cosent", "approx_ndcg"])
def test_gold_is_read_from_the_bottom_of_its_scale(
    spread_encoder: Path, listed: Pairs, ranking: str
):
    moved = dataclasses.replace(listed, gold=listed.gold + 1, score_range=(1.0, 6.0))
    one, other = (
        value(prepared(spread_encoder, data, ranking=ranking), [0, 1, 2])
        for data in (listed, moved)
    )
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("ranking", ["listnet", "listmle", "cosent", "approx_ndcg"])
def test_a_batch_is_the_mean_of_its_lists_each_of_its_own_length(
    spread_encoder: Path, listed: Pairs, ranking: str
):
    method = prepared(
        spread_encoder, listed, ranking=ranking, temperature=0.1, gold_temperature=0.3
    )
    rows = [3, 0, 8]
    assert len({len(method.groups[row].pairs) for row in rows}) == 2
    reference = expected(method.encoder, listed, rows, ranking)
    torch.testing.assert_close(value(method, rows).item(), reference, rtol=1e-4, atol=1e-6)


def test_the_gain_of_the_metric_is_that_of_the_settings(spread_encoder: Path, listed: Pairs):
    group = listed.groups()[0]
    for gain in ("exponential", "linear"):
        method = prepared(spread_encoder, listed, ranking="approx_ndcg", temperature=0.1, gain=gain)
        query, *targets = method.encoder.encode([group.query, *group])
        cosines, gold = torch.stack(targets) @ query, torch.from_numpy(group.gold).float()
        wanted = losses.approx_ndcg(cosines[None], gold[None], temperature=0.1, gain=gain)
        torch.testing.assert_close(value(method, [0]), wanted, rtol=1e-4, atol=1e-6)


def test_a_batch_is_as_wide_as_its_own_longest_list(spread_encoder: Path):
    first = ["q"] * 4 + ["r"] * 5 + ["long"] * 300
    second = [f"target {row}" for row in range(len(first))]
    gold = [row % 4 for row in range(len(first))]
    data = Pairs.from_lists(first, second, gold, name="one long list", scale=(0, 5))
    method = prepared(spread_encoder, data)
    assert [len(group.pairs) for group in method.groups] == [4, 5, 300]
    assert method.collate([0, 1])["targets"].shape == method.collate([0, 1])["gold"].shape == (2, 5)
    assert method.collate([2])["gold"].shape == (1, 300)


def test_only_the_listnet_and_the_metric_read_the_values_of_gold(
    spread_encoder: Path, listed: Pairs
):
    bent = Pairs.from_lists(
        *listed.texts, (listed.gold**3 / 25).tolist(), name="bent", scale=(0, 5)
    )
    for ranking in ("listnet", "listmle", "cosent", "approx_ndcg"):
        one, other = (
            value(prepared(spread_encoder, data, ranking=ranking), [0, 1, 2])
            for data in (listed, bent)
        )
        assert torch.equal(one, other) == (ranking in ("listmle", "cosent")), ranking


def test_an_order_has_no_ties_that_gold_does_not_have(spread_encoder: Path):
    gold = [1.0, 1.0 + 1e-9, 2.0, 3.0]  # float32 cannot tell the first two apart
    data = Pairs.from_lists(["q"] * 4, [*"abcd"], gold, name="near", scale=(0, 5))
    for ranking in ("listmle", "cosent"):
        assert len(set(prepared(spread_encoder, data, ranking=ranking).gold[0].tolist())) == 4


def test_a_sentence_on_either_side_is_a_query_and_one_of_equal_gold_is_not(spread_encoder: Path):
    first = ["a", "a", "b", "c", "x", "x", "x", "x", "d"]
    second = ["q", "q", "q", "q", "k", "l", "m", "n", "x"]
    data = Pairs.from_lists(first, second, [1, 2, 3, 3, 2, 2, 2, 2, 2], name="sides", scale=(0, 5))
    method = prepared(spread_encoder, data)
    assert [group.query for group in method.groups] == ["q"]
    assert method.groups[0].targets == ("a", "a", "b", "c")
    assert method.examples(data) == 1


def test_a_limit_counts_queries_and_keeps_their_targets():
    config = ListsConfig.from_parameters("demo", 0, {"train_limit": 5})
    data, whole = load_training(config), load_pairs("world-train")
    assert len(set(data.sentence1)) == 5
    assert len(data) == sum(first in data.sentence1 for first in whole.sentence1) == 35
    assert load_training(config).checksum == data.checksum != whole.checksum
    assert "5 of 600 queries" in data.source
    queries = [group.query for group in whole.groups()]
    for seed, some in ((0, data), (3, sample_queries(whole, 5, 3))):
        drawn = np.sort(np.random.default_rng(seed).choice(600, 5, replace=False))
        assert list(dict.fromkeys(some.sentence1)) == [queries[row] for row in drawn]
    assert len(load_training(ListsConfig.from_parameters("demo", 0, {"train_limit": 1000}))) == len(
        whole
    )


def test_pairs_without_lists_are_refused_by_their_name(spread_encoder: Path, graded: Pairs):
    alone = Pairs.from_lists(["a", "b"], ["c", "d"], [1, 2], name="alone", scale=(0, 5))
    with pytest.raises(DataError, match="alone: no sentence is in four or more pairs"):
        prepared(spread_encoder, alone)
