"""No step waits for its device, seen on the device "meta", whose tensors have a shape and no
values.

Reading a value or an index whose length depends on values raises there. The rest of what waits, or
fails on a GPU, is refused by `Watch`. The fused optimizer of a training does not run on "meta": SGD
stands for it."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from workbench import losses
from workbench.config import CONFIGS
from workbench.data import Pairs, Sentences, Triplets
from workbench.encoder import Encoder, _model, to_device
from workbench.encoder._hardware import choose_hardware
from workbench.errors import EncoderError
from workbench.methods import METHODS, base, rank_vectors
from workbench.methods.base import Method
from workbench.training import fit
from workbench.training._plan import Plan
from workbench.training._step import TrainingStep

pytestmark = pytest.mark.usefixtures("no_type_checks")  # which torch.compile cannot trace
META = torch.device("meta")
EVERY_TERM = {"cosent": 1.0, "beta": 1.0, "rank_weight": 1.0, "rank_lists": 1.0, "mlm_weight": 0.1}
EVERY_TERM |= {"train": "world-train", "compose": "none", "ranking": "listmle"}
TEMPLATES = {
    "pooling": "mask",
    "template": "a {sentence} [MASK]",
    "second_template": "the {sentence} [MASK]",
}
INTERACTION = {"model": "interaction"}
# The forms of each method that differ in what a step computes.
FORMS: dict[str, list[dict[str, Any]]] = {
    "simcse": [
        {},
        {"supervised": True, "pooling": "pooler", "mlp": False},
        {"mlm_weight": 0.1, "chunk_size": 3},
        {"positives": "crop"},
    ],
    "rankcse": [
        {},
        {"consistency": "entropy"},
        *({"ranking": ranking} for ranking in ("listmle", "cosent", "mse", "correlation")),
    ],
    "compcse": [
        {},
        {"aggregation": "concat_difference_project", "partition": "tokens"},
        {"pooling": "max"},
    ],
    "cosent": [
        {"objective": objective}
        for objective in (
            "cosent",
            "mse",
            "contrastive",
            "softmax",
            "triplet",
            "pearson",
            "rank_kl",
        )
    ]
    + [{"objective": "contrastive", "contrastive_form": "hinge"}, INTERACTION]
    + [INTERACTION | {"objective": "cross_entropy"}],
    "rankencoder": [{}, {"similarity": "gaussian"}, {"ranks": "stored"}, TEMPLATES],
    "mixed": [
        EVERY_TERM,
        {},
        {"pooling": "avg_first_last"},
        {"positives": "crop", "compose": "none"},
    ],
    "lists": [{"ranking": ranking} for ranking in ("listnet", "listmle", "cosent", "approx_ndcg")],
}
CASES = [(name, form) for name, forms in FORMS.items() for form in forms]
COMPILED = [(name, forms[0]) for name, forms in FORMS.items()]


class Watch(TorchDispatchMode):
    """Refuse copies from the CPU that wait, and operations on tensors of both."""

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = operation(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        # A single number of the CPU is an argument of a kernel, not a copy.
        places = {tensor.device.type for tensor in tensors if tensor.ndim}
        if len(places) > 1 and not (
            operation._overloadpacket is torch.ops.aten._to_copy
            and (kwargs or {}).get("non_blocking")
        ):
            raise RuntimeError(f"{operation} reads tensors of {sorted(places)}")
        return result


def prepared(
    name: str, form: dict[str, Any], start: Path, teacher: Path, *sets: Any, **more: Any
) -> Method:
    """Return a method that has read the one of `sets` of its kind; `more` are settings."""
    asked: dict[str, Any] = {
        "encoder": str(start),
        "device": "cpu",
        "dropout": 0.1,
        "batch_size": 8,
        "max_steps": 4,
    }
    asked |= {
        "cache": str(start.parent / "cache"),
        "teachers": [str(start), str(teacher)],
        "base": str(teacher),
    }
    asked |= {"corpus_size": 40, "pooling": "cls"} | more | form
    known = {*CONFIGS[name].model_fields, "model", "chunk_size"}
    config = CONFIGS[name].from_parameters(
        "demo", 0, {key: asked[key] for key in asked.keys() & known}
    )
    method = METHODS[name](config)
    method.prepare(
        next(data for data in sets if type(data).__name__.lower() == config.train_kinds[0])
    )
    return method.to(method.encoder.device)


@pytest.fixture
def sets(sentences: Sentences, graded: Pairs, triplets: Triplets) -> list[Any]:
    return [sentences, graded, triplets]


@pytest.fixture
def build(spread_encoder: Path, wide_teacher: Path, sets: list[Any], listed: Pairs) -> Any:
    """Return a function (name, form) -> the prepared method, its weights and targets on "meta"."""

    def on_meta(name: str, form: dict[str, Any]) -> Method:
        usable = [listed] if name == "lists" else sets
        method = prepared(name, form, spread_encoder, wide_teacher, *usable)
        no_targets = SimpleNamespace(corpus=SimpleNamespace(rows=None), covariance=None)
        targets: Any = getattr(getattr(method, "ranks", None), "targets", no_targets)
        for owner, tensor in ((targets.corpus, "rows"), (targets, "covariance")):
            if getattr(owner, tensor) is not None:
                setattr(owner, tensor, getattr(owner, tensor).to(META))
        return method.to(META).train()

    return on_meta


def take_watched_step(method: Method) -> None:
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1, foreach=True)
    scaler = torch.amp.GradScaler("meta", enabled=False)
    state: Any = SimpleNamespace(optimizer=optimizer, scaler=scaler)
    with Watch():
        take_step = TrainingStep(method, method, Plan(method.config, 12), state)
        terms = take_step(0)
    assert {term.device for term in terms.values()} == {META}
    assert terms.keys()


@pytest.mark.parametrize(
    ("name", "form"), CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_no_step_waits_for_the_device(
    build: Any, name: str, form: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = build(name, form)
    monkeypatch.setattr(_model, "attends_unpadded", lambda device, width: False)
    take_watched_step(method)
    monkeypatch.setattr(_model, "attends_unpadded", lambda device, width: device == META)
    method.encoder.bfloat16()  # the backward pass of the kernel for float32 fails on "meta"
    take_watched_step(method)


def test_what_waits_is_noticed(monkeypatch: pytest.MonkeyPatch, build: Any) -> None:
    scores, ids = torch.rand(4, 4, device=META), torch.arange(4)
    for wait in (
        lambda: bool(scores.isnan().any()),
        lambda: scores[scores > 0],
        scores.cpu,
        lambda: ids.to(META),
        lambda: scores[ids],
    ):
        with pytest.raises((RuntimeError, NotImplementedError)), Watch():
            wait()
    monkeypatch.setattr(
        losses, "listnet", lambda *lists, **_: lists[0].sum() * bool(lists[1].isnan().any())
    )
    with pytest.raises(RuntimeError, match="item"):
        take_watched_step(build("rankcse", {}))


def compiled(function: Any) -> Any:
    """Return a function that raises at its call if it is not one graph."""
    torch._dynamo.reset()
    return torch.compile(function, backend="aot_eager", fullgraph=True)


# A remark of torch about "meta" under aot_eager, which has nothing to do with graphs.
@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered:UserWarning")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "form"), COMPILED, ids=lambda value: value if isinstance(value, str) else None
)
def test_forward_and_loss_are_one_graph(build: Any, name: str, form: dict[str, Any]) -> None:
    method = build(name, form)
    terms = compiled(method)(to_device(method.collate(range(8)), META))
    assert terms.keys() == method(to_device(method.collate(range(8)), META)).keys()


# Those of the losses that no form above has.
@pytest.mark.filterwarnings("ignore:.*an autograd kernel was not registered:UserWarning")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")
@pytest.mark.parametrize(
    ("loss", "shape"),
    [
        (losses.list_mse, (8, 8)),
        (losses.list_correlation, (8, 8)),
        (partial(losses.cosent_lists, scale=20.0), (8, 8)),
        (losses.pearson, (8,)),
        (partial(losses.rank_kl, temperature=0.1), (8,)),
    ],
    ids=["mse", "correlation", "cosent", "pearson", "rank_kl"],
)
def test_a_loss_is_one_graph(loss: Any, shape: tuple[int, ...]) -> None:
    scores, others = torch.rand(2, *shape, device=META)
    assert compiled(loss)(scores, others).shape == ()


@pytest.mark.parametrize("kinds", [1, 3, None])
def test_ranks_on_a_device_are_bitwise_those_on_a_cpu(kinds: int | None) -> None:
    scores = torch.rand(6, 50, generator=torch.Generator().manual_seed(0))
    scores = scores if kinds is None else (scores * kinds).round()
    assert torch.equal(rank_vectors._rank_on_device(scores), rank_vectors._rank_on_cpu(scores))
    scores[1, 7] = torch.nan
    assert rank_vectors._rank_on_device(scores).isnan().any(dim=1).tolist() == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]


def fill_uninitialized() -> bool:
    return torch.utils.deterministic.fill_uninitialized_memory


@pytest.mark.parametrize("mode", [0, 2])
def test_fit_restores_the_mode_of_deterministic_algorithms(
    build: Any, monkeypatch: Any, mode: int
) -> None:
    method, seen = build("simcse", {}), []

    def prepare(_: Any) -> None:  # before anything is computed there
        seen.extend([torch.get_deterministic_debug_mode(), fill_uninitialized()])
        raise ZeroDivisionError

    monkeypatch.setattr(Encoder, "device", torch.device("cuda"))
    monkeypatch.setattr(method, "prepare", prepare)
    torch.set_deterministic_debug_mode(mode)
    try:
        with pytest.raises(ZeroDivisionError):
            fit(method, SimpleNamespace(source="", checksum="", kind="sentences"), quiet=True)
        assert seen == [1, False], "without the fills of every new tensor, which decide nothing"
        assert (torch.get_deterministic_debug_mode(), fill_uninitialized()) == (mode, True)
    finally:
        torch.set_deterministic_debug_mode(0)


def test_a_chunk_that_is_computed_again_drops_the_same_units_on_mps(
    monkeypatch: pytest.MonkeyPatch,
):
    ones = torch.ones(64, requires_grad=True)

    def read(part: Any) -> torch.Tensor:
        return torch.nn.functional.dropout(part["ones"]).cos()

    # A stand-in: torch does not restore the random state of mps, and is asked not to here.
    monkeypatch.setattr(torch.mps, "manual_seed", torch.default_generator.manual_seed)
    again = base._redrawing(read, torch.device("mps"))
    vectors = checkpoint(again, {"ones": ones}, use_reentrant=False, preserve_rng_state=False)
    vectors.sum().backward()
    kept = (vectors != 1).float()
    assert 0 < kept.sum() < 64
    assert torch.equal(ones.grad != 0, kept > 0)
    assert base._redrawing(read, torch.device("cpu")) is read


def test_a_card_without_kernels_is_refused(monkeypatch: pytest.MonkeyPatch):
    def no_kernel(*_: Any, **__: Any) -> None:
        raise torch.AcceleratorError("CUDA error: no kernel image is available", 209)

    # An empty tensor needs no kernel.
    monkeypatch.setattr(torch, "ones", no_kernel)
    with pytest.raises(EncoderError, match=r"'cpu' cannot be used \(.*no kernel image"):
        choose_hardware("cpu", "fp32")


class Copies(TorchFunctionMode):
    """Note whether copies to a device wait; make none."""

    def __init__(self) -> None:
        super().__init__()
        self.wait: list[bool] = []

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is Tensor.to:
            self.wait.append(not kwargs["non_blocking"])
            return args[0]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("device", "waits"), [("mps", True), ("meta", False), ("xpu", False)])
def test_a_copy_to_mps_waits_because_its_source_may_be_released(device: str, *, waits: bool):
    with Copies() as copies:
        to_device({"ids": torch.ones(2), "rows": [1]}, torch.device(device))
    assert copies.wait == [waits]


def test_a_device_that_is_missing_is_refused():
    with pytest.raises(
        EncoderError, match=r"'cuda:99' cannot be used \(.+\); choose 'cpu', or free it"
    ):
        choose_hardware("cuda:99", "fp32")
