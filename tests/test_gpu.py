"""What only a GPU shows: `make gpu` runs this module and prints a table for docs/gpu.md.

Without CUDA the module is skipped. WORKBENCH_GPU_TESTS=cpu runs the same tests on the CPU, to check
the tests themselves: there a comparison of CPU and GPU compares two runs on the CPU."""

import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_device import CASES, prepared
from torch import Tensor

from workbench.config import CONFIGS, SimCSEConfig
from workbench.data import (
    Pairs,
    Sentences,
    Triplets,
    load_dev,
    load_pairs,
    load_sentences,
    load_training,
)
from workbench.encoder import Encoder, to_device
from workbench.methods import METHODS
from workbench.methods.simcse import SimCSE
from workbench.metrics import spearman
from workbench.runs import Run
from workbench.training import fit
from workbench.training._plan import Plan
from workbench.training._state import State
from workbench.training._step import GraphRecorder, Recorder, TrainingStep

DEVICE = os.environ.get("WORKBENCH_GPU_TESTS") or "cuda"
if DEVICE == "cuda" and not torch.cuda.is_available():
    pytest.skip("no CUDA device", allow_module_level=True)
ON_GPU = DEVICE == "cuda"
pytestmark = [
    pytest.mark.usefixtures("no_type_checks"),  # which take time
    pytest.mark.filterwarnings("ignore:.*determinis:UserWarning"),  # reported by the last test
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning"),
]
HALF = "bf16" if not ON_GPU or torch.cuda.is_bf16_supported(including_emulation=False) else "fp16"
FIGURES: list[tuple[str, str]] = []


@pytest.fixture(scope="module", autouse=True)
def _table() -> Iterator[None]:
    """Print the figures of all tests as a Markdown table."""
    yield
    import sentence_transformers
    import transformers

    where = f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if ON_GPU else "CPU"
    used = f"torch {torch.__version__}, transformers {transformers.__version__}, "
    used += (
        f"sentence-transformers {sentence_transformers.__version__}, Python "
        f"{platform.python_version()}"
    )
    rows = [("measured", "value"), ("---", "---"), ("device", where), ("versions", used), *FIGURES]
    print("\n\n" + "\n".join(f"| {name} | {value} |" for name, value in rows))


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of an untrained encoder of BERT-base's size, or of a smaller one for a CPU;
    mean pooling."""
    from transformers import BertConfig, BertModel

    folder = tmp_path_factory.mktemp("start") / "encoder"
    encoder = Encoder.from_pretrained("english-encoder", "mean", device="cpu")
    encoder.save(folder)
    size = {} if ON_GPU else {"hidden_size": 96, "num_attention_heads": 4, "intermediate_size": 384}
    model = BertModel(BertConfig(vocab_size=len(encoder.tokenizer), **size))
    model.save_pretrained(folder)
    parameters = sum(weight.numel() for weight in model.parameters())
    layers, width = model.config.num_hidden_layers, model.config.hidden_size
    text = f"BERT, {layers} layers of {width}, {parameters / 1e6:.0f} million parameters, untrained"
    FIGURES.append(("encoder of the speeds and of the memory", text))
    return folder


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Return 120 different texts of 1 to 60 words."""
    words = " ".join(load_sentences("world", limit=600, seed=0).sentences).split()
    return [" ".join(words[40 * row :][: 1 + row % 60]) for row in range(120)]


def read_padding(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a batch whose padding counts as words: an error that the tolerances must show."""
    return batch | {"attention_mask": torch.ones_like(batch["attention_mask"])}


def largest_difference(first: Tensor, second: Tensor) -> float:
    return float((first.cpu() - second.cpu()).abs().max())


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "avg_first_last"])
def test_a_text_has_one_vector_alone_in_a_batch_and_on_the_cpu(
    texts: list[str], pooling: str
) -> None:
    on_cpu, encoder = (
        Encoder.from_pretrained("english-encoder", pooling, device=place, precision="fp32")
        for place in ("cpu", DEVICE)
    )
    together = encoder.encode(texts, batch_size=len(texts))
    alone = torch.stack([encoder.encode(text) for text in texts])
    with torch.no_grad():
        wrong = encoder(read_padding(encoder.tokenize(texts, train_length=64)))
    wrong = torch.nn.functional.normalize(wrong, dim=1)
    differences = [
        largest_difference(together, other) for other in (alone, on_cpu.encode(texts), wrong)
    ]
    assert differences[2] > 1e-2
    assert max(differences[:2]) < 5e-5
    FIGURES.append(
        (
            f"largest difference of a unit vector's numbers, {pooling}: alone",
            f"{differences[0]:.1e}",
        )
    )
    FIGURES.append(
        (f"largest difference of a unit vector's numbers, {pooling}: CPU", f"{differences[1]:.1e}")
    )


def gradient(encoder: Encoder, batches: Sequence[dict[str, Any]], directions: Tensor) -> Tensor:
    """Return the gradient of a weighted sum of all vectors as one row of numbers."""
    encoder.zero_grad()
    shares = directions.split([len(batch["input_ids"]) for batch in batches])
    for batch, share in zip(batches, shares, strict=True):
        with encoder.autocast():
            vectors = encoder(batch)
        (vectors * share.to(encoder.device)).sum().backward()
    return torch.cat(
        [weight.grad.flatten() for weight in encoder.parameters() if weight.grad is not None]
    ).cpu()


# In half precision, gradients differ from those in fp32 by rounding: the tolerance is for all ways
# to compute them.
@pytest.mark.parametrize(("precision", "tolerance"), [("fp32", 1e-4), (HALF, 0.03)])
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_gradient_does_not_depend_on_padding_nor_on_the_device(
    texts: list[str], pooling: str, precision: str, tolerance: float
) -> None:
    on_cpu, encoder = (
        Encoder.from_pretrained(
            "english-encoder", pooling, device=place, precision=kind, dropout=0.0
        ).train()
        for place, kind in (("cpu", "fp32"), (DEVICE, precision))
    )
    rows, every = encoder.token_rows(texts, train_length=56), range(len(texts))
    # With the lengths of its rows: on CUDA attention is computed without padding.
    batch = rows.batch(every)
    padded = {name: batch[name] for name in ("input_ids", "attention_mask")}
    fill = {"input_ids": encoder.tokenizer.pad_token_id, "attention_mask": 0}
    wider = {
        name: torch.nn.functional.pad(padded[name], (0, 8), value=value)
        for name, value in fill.items()
    }
    directions = torch.randn(
        len(texts), encoder.dimension, generator=torch.Generator().manual_seed(0)
    )
    expected = gradient(on_cpu, [padded], directions)
    ways = {"without padding": [batch], "padded": [padded], "padded by 8 more": [wider]}
    ways |= {"one at a time": [rows.batch([row]) for row in every], "wrong": [read_padding(padded)]}
    found = {way: gradient(encoder, batches, directions) for way, batches in ways.items()}
    distances = {
        way: float((one - expected).norm() / expected.norm()) for way, one in found.items()
    }
    assert distances.pop("wrong") > 2 * tolerance
    for way, distance in distances.items():
        assert distance < tolerance, way
        name = f"gradient, {pooling}, {precision}, {way}: relative distance to fp32 on the CPU"
        FIGURES.append((name, f"{distance:.1e}"))


@pytest.fixture
def scored() -> tuple[str, Pairs]:
    """Return STS-B test and an encoder for it if there is a folder with real data, otherwise the
    bundled dev set."""
    from conftest import local_data_root

    root = local_data_root()
    if root is None:
        return "world-teacher", load_pairs("world-dev")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_DATA", str(root))
        return "english-encoder", load_pairs("stsb-test")


def test_half_precision_ranks_as_fp32_does(scored: tuple[str, Pairs]) -> None:
    name, pairs = scored

    def scores(precision: str, pooling: str | None = None) -> np.ndarray:
        encoder = Encoder.from_pretrained(name, pooling, device=DEVICE, precision=precision)
        first, second = encoder.encode(pairs.sentence1), encoder.encode(pairs.sentence2)
        return (first * second).sum(dim=1).numpy()

    exact, half, wrong = scores("fp32"), scores(HALF), scores("fp32", "max")
    agreement = spearman(exact, half)
    change = 100 * (spearman(pairs.gold, half) - spearman(pairs.gold, exact))
    assert spearman(exact, wrong) < 0.99
    assert agreement > 0.999
    assert abs(change) < 0.2
    FIGURES.append(
        (f"{HALF} against fp32, {pairs.name}: Spearman of the scores", f"{agreement:.5f}")
    )
    FIGURES.append(
        (f"{HALF} against fp32, {pairs.name}: change against gold, points", f"{change:+.3f}")
    )


def seconds(work: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    work()
    if ON_GPU:
        torch.cuda.synchronize()
    return time.perf_counter() - begin


@pytest.mark.parametrize("precision", ["fp32", HALF])
def test_report_the_speed_of_encode(start: Path, precision: str) -> None:
    from sentence_transformers import SentenceTransformer

    kinds = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    sentences = load_sentences("world", limit=20_000 if ON_GPU else 200, seed=0).sentences
    ours = Encoder.from_pretrained(start, device=DEVICE, precision=precision)
    theirs = SentenceTransformer(
        str(start), device=DEVICE, model_kwargs={"dtype": kinds[precision]}
    )
    work = [
        lambda: ours.encode(sentences, 256),
        lambda: theirs.encode(
            sentences, batch_size=256, convert_to_tensor=True, normalize_embeddings=True
        ),
    ]
    vectors = [one().float().cpu() for one in work]  # also warms up
    assert float((vectors[0] * vectors[1]).sum(dim=1).min()) > 0.99, (
        "the two do not compute the same"
    )
    rounds = [[len(sentences) / seconds(one) for one in work] for _ in range(5 if ON_GPU else 1)]
    rates = [statistics.median(rates) for rates in zip(*rounds, strict=True)]
    text = f"{rates[0]:.0f}, sentence-transformers {rates[1]:.0f}, ratio {rates[0] / rates[1]:.2f}"
    if precision == HALF:
        tokens = float(ours.token_rows(sentences[:1000], train_length=64).lengths.mean())
        share = rates[0] * tokens * operations_per_token(ours) / matrix_rate()
        text += f", {share:.1%} of the ceiling"
    FIGURES.append((f"encode, {precision}, batches of 256: sentences per second", text))


def simcse(start: str | Path, **settings: Any) -> SimCSE:
    given = {
        "encoder": str(start),
        "device": DEVICE,
        "precision": "fp32",
        "eval_steps": 10**6,
        "save_steps": 10**6,
    }
    return SimCSE(SimCSEConfig.from_parameters("demo", 0, given | settings))


def matrix_rate() -> float:
    """Return the floating-point operations per second of a large matrix product: the ceiling."""
    kind = torch.bfloat16 if HALF == "bf16" or not ON_GPU else torch.float16
    size = 8192 if ON_GPU else 512
    left, right = (torch.randn(size, size, device=DEVICE, dtype=kind) for _ in range(2))
    repeats = 20 if ON_GPU else 2
    torch.mm(left, right)  # warms up

    def multiply() -> None:
        for _ in range(repeats):
            torch.mm(left, right)

    return repeats * 2 * size**3 / seconds(multiply)


def operations_per_token(encoder: Encoder) -> int:
    """Return the operations of a forward pass: a product and a sum for each weight of a layer."""
    layers = encoder.backbone.encoder.layer
    return 2 * sum(weight.numel() for weight in layers.parameters() if weight.ndim == 2)


def rate_of_steps(train: Callable[[int], Any]) -> float:
    """Return the steps per second of a training, without its start and its end."""
    few, many = (20, 220) if ON_GPU else (2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(few)  # warms up
        short, long = (seconds(lambda steps=steps: train(steps)) for steps in (few, many))
    return (many - few) / (long - short)


def test_report_the_speed_of_training(start: Path, tmp_path: Path) -> None:
    import sentence_transformers as st
    from datasets import Dataset
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    data = load_sentences("world", limit=15_000 if ON_GPU else 600, seed=0)
    pairs = Dataset.from_dict({"anchor": data.sentences, "positive": data.sentences})
    precision = HALF if ON_GPU else "fp32"
    options: dict[str, Any] = {"batch_size": 64, "pooling": "mean", "mlp": False}
    options |= {"precision": precision, "logging_steps": 10**6}

    def ours(steps: int, **more: Any) -> None:
        fit(simcse(start, **options, **more, max_steps=steps), data, quiet=True)

    def theirs(steps: int, attention: str = "sdpa", **more: Any) -> None:
        kwargs = {"attn_implementation": attention}
        model = st.SentenceTransformer(str(start), device=DEVICE, model_kwargs=kwargs)
        model.max_seq_length = 32
        fixed: dict[str, Any] = {"save_strategy": "no", "report_to": "none", "disable_tqdm": True}
        fixed |= {"per_device_train_batch_size": 64, "use_cpu": not ON_GPU}
        fixed |= {precision: True} if precision != "fp32" else {}
        arguments = st.SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path), max_steps=steps, **fixed, **more
        )
        loss = MultipleNegativesRankingLoss(model)
        st.SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=pairs, loss=loss
        ).train()

    trainings: dict[str, Callable[[int], Any]] = {
        "launched": ours,
        "replayed": lambda steps: ours(steps, cuda_graphs=True),
        "sentence-transformers": theirs,
    }
    if ON_GPU:
        trainings["sentence-transformers, compiled"] = lambda n: theirs(n, torch_compile=True)
        flash = "flash_attention_2"
        trainings["sentence-transformers, flash attention"] = lambda n: theirs(n, flash)
    method = simcse(start, **options)
    method.prepare(data)
    tokens = 2 * 64 * float(method.tokens.lengths.mean())
    # A backward pass costs twice a forward pass.
    operations = 3 * operations_per_token(method.encoder) * tokens
    ceiling = matrix_rate()
    name = f"training, {precision}, SimCSE, batches of 64"
    FIGURES.append(
        (
            f"{name}: operations of a step; ceiling per second (large product)",
            f"{operations:.2e}; {ceiling:.2e}",
        )
    )
    rates: dict[str, float] = {}
    for kind, train in trainings.items():
        try:
            rates[kind] = rate_of_steps(train)
        except Exception as problem:  # a kernel or a compiler is missing here
            if kind in ("launched", "replayed", "sentence-transformers"):
                raise
            FIGURES.append((f"{name}, {kind}", f"does not run here: {str(problem)[:80]}"))
            continue
        ratio = rates[kind] / rates["launched"]
        share = rates[kind] * operations / ceiling
        text = f"{rates[kind]:.1f} steps/s, {ratio:.2f} of launched, {share:.1%} of the ceiling"
        FIGURES.append((f"{name}, {kind}", text))


def test_report_the_steps_of_every_method(start: Path, tmp_path: Path) -> None:
    few, many = (5, 55) if ON_GPU else (4, 6)
    times = {}
    for name, config_class in CONFIGS.items():
        options: dict[str, Any] = {"encoder": str(start), "pooling": "mean", "device": DEVICE}
        options |= {"precision": HALF, "train_limit": 512, "batch_size": 64, "max_steps": many}
        options |= {"teachers": ["world-teacher"], "base": "world-encoder", "corpus_size": 500}
        options |= {"cache": str(tmp_path), "base_root": str(tmp_path)}
        known = {key: options[key] for key in options.keys() & config_class.model_fields.keys()}
        method = METHODS[name](config_class.from_parameters("demo", 0, known))
        method.prepare(load_training(method.config))
        method.to(DEVICE).train()
        method.has_static_shapes = True
        plan = Plan(method.config, method.examples(load_training(method.config)))
        for kind in ("launched", "replayed"):
            recorder = None
            if kind == "replayed":
                recorder = GraphRecorder(torch.device(DEVICE)) if ON_GPU else Recorder()
            state = State(Path("unused"), method, recorded=recorder is not None)
            take_step = TrainingStep(method, method, plan, state, recorder)
            for step in range(few):
                take_step(step)

            def take_steps(take_step: TrainingStep = take_step) -> None:
                for step in range(few, many):
                    take_step(step)

            times[name, kind] = seconds(take_steps) / (many - few)
    for (name, kind), own in times.items():
        text = f"{1000 * own:.1f} ms, {own / times['simcse', kind]:.2f} of SimCSE's"
        FIGURES.append((f"a step of {name}, batches of 64, {kind}", text))


@pytest.mark.parametrize(
    ("name", "form"), CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_replayed_steps_are_those_that_are_launched(  # noqa: PLR0917 - fixtures
    spread_encoder: Path,
    wide_teacher: Path,
    sentences: Sentences,
    graded: Pairs,
    listed: Pairs,
    triplets: Triplets,
    name: str,
    form: dict[str, Any],
) -> None:
    sets = [sentences, listed if name == "lists" else graded, triplets]
    histories = []
    for is_replayed in (False, True):
        options = {"device": DEVICE, "precision": HALF, "max_steps": 20}
        method = prepared(name, form, spread_encoder, wide_teacher, *sets, **options).train()
        method.has_static_shapes = True
        recorder = None
        if is_replayed:
            recorder = GraphRecorder(torch.device(DEVICE)) if ON_GPU else Recorder()
        state = State(Path("unused"), method, recorded=is_replayed)
        take_step = TrainingStep(method, method, Plan(method.config, 12), state, recorder)
        terms = [take_step(step) for step in range(20)]
        histories.append([sum(float(value.detach()) for value in one.values()) for one in terms])
    launched, replayed = histories
    np.testing.assert_allclose(replayed, launched, rtol=1e-2)
    change = float(np.abs(np.subtract(replayed, launched)).max())
    label = " ".join([name, *(f"{key}={value}" for key, value in form.items())])
    FIGURES.append(
        (
            f"replayed against launched, 20 steps, {label}: largest difference of the loss",
            f"{change:.1e}",
        )
    )


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    if ON_GPU and torch.cuda.device_count() < 2:
        pytest.skip(
            f"{torch.cuda.device_count()} CUDA device: two processes need two, as each has its own"
        )

    def history(processes: int) -> Any:
        options = {
            "max_steps": 6,
            "eval_steps": 3,
            "logging_steps": 1,
            "train_limit": 64,
            "batch_size": 16,
        }
        method = simcse("world-encoder", **options, num_processes=processes, dropout=0.0)
        run = Run.open(method.config, tmp_path / str(processes))
        return fit(
            method, load_training(method.config), load_dev(method.config), run=run, quiet=True
        )

    one, two = history(1), history(2)
    assert two["loss"].notna().sum() == 6
    np.testing.assert_allclose(two["loss"], one["loss"], rtol=1e-3)
    np.testing.assert_allclose(two["dev_spearman"], one["dev_spearman"], atol=2e-3)
    change = float((two["loss"] / one["loss"] - 1).abs().max())
    FIGURES.append(
        (
            "two processes, 6 steps: largest relative difference of the loss to one process",
            f"{change:.1e}",
        )
    )


@pytest.mark.skipif(
    not ON_GPU, reason="torch counts the memory of a GPU; tests/test_chunks.py has that of a CPU"
)
def test_mini_batches_save_memory(start: Path) -> None:
    data, peaks = load_sentences("world", limit=512, seed=0), {}
    for setting, value in (
        ("mini_batch_size", "none"),
        ("mini_batch_size", 64),
        ("mini_batch_tokens", 1024),
    ):
        chunks = {"batch_size": 512, setting: value}
        method = simcse(start, **chunks, pooling="mean", max_steps=3, precision=HALF)
        method.prepare(data)
        method.to(DEVICE).train()
        plan, state = Plan(method.config, len(data)), State(Path("unused"), method)
        take_step = TrainingStep(method, method, plan, state)
        take_step(0)  # warms up
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        take_step(1)
        peaks[value] = (torch.cuda.max_memory_allocated() - before) / 2**20
        name = f"peak memory that a SimCSE step of 512 sentences adds, {HALF}, {setting}={value}"
        FIGURES.append((name, f"{peaks[value]:.0f} MiB"))
        del method, state
    assert max(peaks[64], peaks[1024]) < peaks["none"] / 2


@pytest.mark.parametrize(
    ("name", "form"), CASES, ids=lambda value: value if isinstance(value, str) else None
)
def test_no_forward_waits_for_the_device_and_losses_are_those_of_a_cpu(  # noqa: PLR0917 - fixtures
    spread_encoder: Path,
    wide_teacher: Path,
    sentences: Sentences,
    graded: Pairs,
    listed: Pairs,
    triplets: Triplets,
    name: str,
    form: dict[str, Any],
) -> None:
    found, sets = [], [sentences, listed if name == "lists" else graded, triplets]
    for place, precision in (("cpu", "fp32"), (DEVICE, "fp32"), (DEVICE, HALF)):
        options = {"device": place, "dropout": 0.0, "precision": precision}
        method = prepared(name, form, spread_encoder, wide_teacher, *sets, **options).train()
        plan, state, steps = Plan(method.config, 12), State(Path("unused"), method), []
        take_step = TrainingStep(method, method, plan, state)
        for step in range(3):
            torch.manual_seed(plan.seed(step))
            batch = to_device(method.collate(plan.rows(step)), method.encoder.device)
            if place == "cuda":
                torch.cuda.set_sync_debug_mode("error")
            try:
                with method.encoder.autocast():
                    terms = method(batch)
            finally:
                if place == "cuda":
                    torch.cuda.set_sync_debug_mode("default")
            steps.append({term: float(value.detach()) for term, value in terms.items()})
            take_step(step)
        found.append(steps)
    for step, (on_cpu, here, in_half) in enumerate(zip(*found, strict=True)):
        assert here == pytest.approx(on_cpu, rel=(1e-4, 1e-3, 1e-2)[step], abs=1e-6), step
        assert np.isfinite([*here.values(), *in_half.values()]).all()


def test_a_training_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    options = {
        "max_steps": 8,
        "logging_steps": 1,
        "save_steps": 2,
        "batch_size": 32,
        "mlm_weight": 0.1,
    }
    data, noted = load_sentences("world", limit=512, seed=0), []

    def stop(row: dict[str, Any]) -> None:
        if row["step"] == 5:
            raise KeyboardInterrupt

    torch.set_warn_always(True)  # otherwise torch names an operation once in a process
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            whole, first, again = (simcse("world-encoder", **options) for _ in range(3))
            expected = fit(whole, data, run=Run.open(whole.config, tmp_path / "whole"), quiet=True)
            run = Run.open(first.config, tmp_path / "stopped")
            with pytest.raises(KeyboardInterrupt):
                fit(first, data, run=run, quiet=True, callbacks=[stop])
            history = fit(again, data, run=run, quiet=True)
    finally:
        torch.set_warn_always(False)
    unordered = sorted(
        {str(w.message).split(".")[0] for w in noted if "determinis" in str(w.message)}
    )
    pairs = [
        (a, b)
        for a, b in zip(whole.state_dict().values(), again.state_dict().values(), strict=True)
    ]
    is_same = all(torch.equal(a, b) for a, b in pairs)
    text = (
        "bit for bit" if is_same else f"up to {max(largest_difference(a, b) for a, b in pairs):.1e}"
    )
    FIGURES.append(("a resumed training has the weights of an uninterrupted one", text))
    FIGURES.append(
        ("operations of that training without a fixed order", "; ".join(unordered) or "none")
    )
    if not unordered:
        assert is_same
    np.testing.assert_allclose(history["loss"], expected["loss"], rtol=1e-3)
