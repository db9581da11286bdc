"""A SimCSE training step here against sentence-transformers' trainer at its defaults, in one run.

Both train the same checkpoint on the same sentences with the same batch size: there with MultipleNegativesRankingLoss
on (sentence, sentence) pairs, here with SimCSE's settings. A round trains each for some steps, in turn; the ratio is
of the medians over the rounds, by process time and by the clock. Everything that a trainer does in a step counts.

    python benchmarks/simcse_trainer.py [--encoder NAME] [--train SET] [--threads 1] [--steps 20] [--rounds 3]
"""

import argparse
import os
import statistics
import tempfile
import time
import warnings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--train", default="world")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    chosen = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"

    import torch
    import transformers

    from workbench import SimCSE, SimCSEConfig, load_training

    transformers.utils.logging.set_verbosity_error()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(chosen.threads)
    options = {"encoder": chosen.encoder, "train": chosen.train, "batch_size": chosen.batch_size, "device": "cpu"}
    # Neither side measures dev or saves: the step alone is compared.
    options |= {"max_steps": chosen.steps, "train_limit": 20_000, "save_steps": 10**6, "eval_steps": 10**6}
    config = SimCSEConfig.from_parameters("demo", 0, options)
    sentences = load_training(config)
    found: dict[str, list[tuple[float, float]]] = {"ours": [], "sentence-transformers": []}
    for number in range(chosen.rounds + 1):
        for name, run in (("ours", train_here), ("sentence-transformers", train_there)):
            step = run(SimCSE(config), sentences, config)
            if number:  # the first round warms up
                found[name].append(step)
    import sentence_transformers

    print(
        f"{chosen.encoder} on {chosen.train}, batch {chosen.batch_size}, {chosen.threads} thread(s), fp32 unless said"
    )
    print(f"torch {torch.__version__}, sentence-transformers {sentence_transformers.__version__}, ", end="")
    print(f"ours in {SimCSE(config).encoder.precision}, {chosen.rounds} rounds of {chosen.steps} steps")
    for kind, column in (("process time", 0), ("clock", 1)):
        ours, theirs = (statistics.median(times[column] for times in found[name]) for name in found)
        print(f"{kind:<13} ms a step: ours {1000 * ours:.0f}, sentence-transformers {1000 * theirs:.0f}, ", end="")
        print(f"ratio {theirs / ours:.2f}")


def train_here(method, sentences, config) -> tuple[float, float]:
    """Seconds a step of process time and of the clock, tokenisation of the whole set left out on both sides' favour."""
    from workbench import fit

    method.prepare(sentences)
    method.prepare = lambda data: None
    return _timed(lambda: fit(method, sentences, quiet=True), config.max_steps)


def train_there(method, sentences, config) -> tuple[float, float]:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.losses import MultipleNegativesRankingLoss

    with tempfile.TemporaryDirectory() as folder:
        method.encoder.save(f"{folder}/start")
        model = SentenceTransformer(f"{folder}/start", device="cpu")
        data = Dataset.from_dict({"anchor": sentences.sentences, "positive": sentences.sentences})
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=config.max_steps,
            per_device_train_batch_size=config.batch_size,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        loss = MultipleNegativesRankingLoss(model)
        trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)
        return _timed(trainer.train, config.max_steps)


def _timed(work, steps: int) -> tuple[float, float]:
    process, clock = time.process_time(), time.perf_counter()
    work()
    return (time.process_time() - process) / steps, (time.perf_counter() - clock) / steps


if __name__ == "__main__":
    main()
