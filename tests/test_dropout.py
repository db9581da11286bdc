"""Fast dropout: rate, expectation, independence and gradient; in eval mode the backbone is
unchanged."""

import math

import pytest
import torch
from tiny_checkpoints import KINDS, tiny_model
from torch.testing import assert_close

from workbench.encoder import fast_dropout
from workbench.encoder._attention import ATTENTION, CheapDropout, cheap_dropout

N = 1 << 20
SIGMAS = 5.0  # one in two million draws exceeds it


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_the_rate_and_the_expectation_hold_in_each_quarter_of_the_words(rate: float) -> None:
    torch.manual_seed(0)
    dropped = cheap_dropout(torch.ones(N), rate)
    # Four elements share a 64-bit word: a word with a constant bit would show in one of the four
    # only.
    for part in dropped.view(-1, 4).T:
        error = SIGMAS * math.sqrt(rate * (1 - rate) / len(part))
        assert abs((part == 0).double().mean() - rate) < error + 2**-17
        assert abs(part.double().mean() - 1) < error / (1 - rate)
    kept = dropped[dropped != 0]
    assert kept.min() == kept.max()
    assert abs(float(kept[0]) * (1 - rate) - 1) < 2e-5  # the rate in steps of 2^-16


def test_a_seed_gives_one_mask_and_the_gradient_has_the_mask_of_the_output() -> None:
    masks = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        x = torch.randn(37, 13, requires_grad=True)
        y = cheap_dropout(x, 0.4)
        y.sum().backward()
        masks.append(x.grad)
        assert_close(y.detach(), x.detach() * x.grad)
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])
    for rate, factor in ((0.0, 1.0), (1.0, 0.0), (1e-7, 1.0)):
        assert torch.equal(cheap_dropout(masks[0], rate), masks[0] * factor)


@pytest.mark.parametrize("kind", KINDS)
def test_in_eval_the_backbone_is_bit_for_bit_as_it_was(kind: str) -> None:
    plain, fast = tiny_model(kind), fast_dropout(tiny_model(kind))
    assert fast.config._attn_implementation == ATTENTION
    assert sum(isinstance(part, CheapDropout) for part in fast.modules()) == 1 + 3 * 3
    assert list(plain.state_dict()) == list(fast.state_dict())
    batch = {
        "input_ids": torch.randint(5, 25, (6, 9)),
        "attention_mask": torch.ones(6, 9, dtype=torch.long),
    }
    batch["attention_mask"][1:, 5:] = 0
    with torch.no_grad():
        assert torch.equal(plain(**batch).last_hidden_state, fast(**batch).last_hidden_state)


def test_training_on_a_cpu_never_enters_fused_attention_at_dropout_0_neither(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = fast_dropout(tiny_model("bert"))
    for part in model.modules():
        if isinstance(part, CheapDropout):
            part.p = 0.0
    batch = {"input_ids": torch.randint(5, 25, (4, 6))}
    wanted = model.eval()(**batch).last_hidden_state
    monkeypatch.setattr("workbench.encoder._attention.sdpa_attention_forward", None)
    assert_close(model.train()(**batch).last_hidden_state, wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("where", ["hidden_dropout_prob", "attention_probs_dropout_prob"])
def test_training_drops_hidden_states_and_attention_with_the_mean_and_spread_of_torch(
    where: str,
) -> None:
    models = [tiny_model("bert", layers=1), fast_dropout(tiny_model("bert", layers=1))]
    ids = torch.randint(5, 25, (1, 9), generator=torch.Generator().manual_seed(0)).expand(4000, -1)
    mask = (torch.arange(9) < 7).long().expand(4000, -1)
    moments = []
    for model in models:
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                attention = any(
                    part is layer.attention.self.dropout for layer in model.encoder.layer
                )
                part.p = 0.3 if attention == where.startswith("attention") else 0.0
        torch.manual_seed(5)
        with torch.no_grad():
            first = model.train()(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0]
        moments.append((first.mean(0), first.std(0)))
    (mean, spread), (fast_mean, fast_spread) = moments
    assert spread.min() > 0.01
    assert ((mean - fast_mean).abs() / spread).max() < SIGMAS * math.sqrt(2 / 4000)
    # The kurtosis of such sums is that of few terms.
    assert (fast_spread / spread - 1).abs().max() < 0.15
