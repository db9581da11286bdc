"""The untrained bases on the bundled world, and on the real sets when WORKBENCH_DATA names a local data root.

    python benchmarks/bases.py [--encoder NAME] [--real] [--suites NAME ...] [--fit-limit 20000] [--whitening 16 64]

Prints Spearman x 100 (KCC and NDCG too on the world). Whitening and tf-idf are fitted on training sentences (world or
wiki); "target" means fitted on the evaluated sentences themselves, without their scores, as part of the literature is.
"""

import argparse
import os

import pandas as pd

from workbench.baselines import Base, load_base
from workbench.config import SEVEN_STS, BaseConfig
from workbench.data import Pairs, load_pairs, load_sentences
from workbench.evaluation import evaluate

POOLINGS = ["cls", "mean", "max", "first_last", "embedding_last"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encoder", default="world-encoder")
    parser.add_argument("--real", action="store_true", help="the seven STS sets instead of the world")
    parser.add_argument("--suites", nargs="*", help="these sets instead")
    parser.add_argument("--fit-limit", type=int, default=20_000)
    parser.add_argument("--whitening", type=int, nargs="*", default=[16, 64])
    options = parser.parse_args()
    if options.real and "WORKBENCH_DATA" not in os.environ:
        parser.error("--real needs the local data root: set WORKBENCH_DATA")
    names = options.suites or (SEVEN_STS if options.real else ["world-dev", "world-test"])
    suites = {name: load_pairs(name) for name in names}
    sentences = load_sentences("wiki" if options.real else "world", limit=options.fit_limit).sentences
    rows = [row(label, base, suites) for label, base in bases(options.encoder, sentences, options.whitening)]
    rows += [target_row(options.encoder, width, suites) for width in options.whitening]
    with pd.option_context("display.width", 250):
        print(pd.DataFrame(rows).to_string(index=False, float_format="{:.2f}".format))


def bases(encoder: str, sentences: list[str], widths: list[int]) -> list[tuple[str, Base]]:
    """Every base by its label, fitted on `sentences`."""

    def base(**settings: object) -> Base:
        return load_base(
            BaseConfig.from_parameters("cls", 0, {"encoder": encoder, "pooling": None} | settings), sentences
        )

    found = [("tf-idf", base(kind="tfidf")), ("static words, mean", base(kind="static"))]
    found += [(f"{encoder}, {pooling}", base(pooling=pooling)) for pooling in POOLINGS]
    for width in widths:
        for pooling in ("first_last", "mean"):
            found.append((f"whitening {pooling}, k={width}", base(kind="whitening", pooling=pooling, width=width)))
    return found


def row(label: str, base: Base, suites: dict[str, Pairs]) -> dict[str, object]:
    """One line of the table."""
    found: dict[str, object] = {"base": label}
    for name, values in evaluate(base, suites).metrics.items():
        found[name] = 100 * values["spearman"]
        if name.startswith("world"):
            found |= {f"{measure} {name[6:]}": 100 * values[measure.lower()] for measure in ("KCC", "NDCG")}
    return found


def target_row(encoder: str, width: int, suites: dict[str, Pairs]) -> dict[str, object]:
    """Whitening fitted on each suite's own sentences."""
    label = f"whitening first_last, k={width}, target"
    found: dict[str, object] = {"base": label}
    settings = {"encoder": encoder, "width": width}
    for name, pairs in suites.items():
        own = list(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))
        base = load_base(BaseConfig.from_parameters("whitening", 0, settings), own)
        found |= {key: value for key, value in row(label, base, {name: pairs}).items() if key != "base"}
    if all(name in found for name in SEVEN_STS):
        found["sts-average"] = sum(float(str(found[name])) for name in SEVEN_STS) / len(SEVEN_STS)
    return found


if __name__ == "__main__":
    main()
