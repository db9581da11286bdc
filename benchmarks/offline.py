"""Measure the page with an encoder inside: its size, the time to its first ranking, and how far it
is from `encode`.

    WORKBENCH_DATA=DIR python benchmarks/offline.py [--encoder english-encoder] [--pairs stsb-test]

For each precision of the weights: the size of the file, the seconds from opening it in Chromium to
the first ranking (a query and four targets; median of five, with the CPU as it is and throttled to
a quarter), the largest difference of a cosine of the pairs from `Encoder.encode` in float32, and
Spearman x 100 on the pairs next to the encoder's."""

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from workbench import Encoder, load_pairs
from workbench.errors import DataError
from workbench.metrics import spearman
from workbench.views import Ask

QUERY = "The train to the coast was late because of snow."
TARGETS = [
    "Bad weather delayed the railway service to the seaside.",
    "The train to the coast was on time in spite of the snow.",
    "She was late because of the train of her wedding dress.",
    "My neighbour grows tomatoes.",
]


def opened(browser: Any, file: Path, slower: int) -> tuple[Any, float]:
    """Return the page, and the seconds until it shows a ranking."""
    page = browser.new_page()
    page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slower})
    started = time.perf_counter()
    page.goto(file.as_uri())
    page.get_by_text("Rank 1 is the nearest").wait_for(timeout=300_000)
    return page, time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default="english-encoder")
    parser.add_argument("--pairs", default="stsb-test")
    options = parser.parse_args()
    browsers = map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])
    executable = next(filter(None, browsers), None)
    if executable is None:
        print("skipped: Chromium is not installed (make .venv/browser)")
        return
    try:
        pairs = load_pairs(options.pairs)
    except DataError as error:
        print(f"skipped: {error}")
        return
    texts = list(dict.fromkeys([*pairs.sentence1, *pairs.sentence2]))
    place = {text: row for row, text in enumerate(texts)}
    first, second = ([place[text] for text in side] for side in pairs.texts)
    vectors = (
        Encoder.from_pretrained(options.encoder, precision="fp32", device="cpu")
        .encode(texts)
        .double()
        .numpy()
    )
    own = (vectors[first] * vectors[second]).sum(axis=1)
    print(f"{options.encoder} on {pairs.name}: Spearman {100 * spearman(pairs.gold, own):.2f}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for precision in ("int8", "float16"):
            file = Ask(options.encoder, QUERY, TARGETS).to_html(
                Path(folder) / "a.html", encoder=True, precision=precision
            )
            times: dict[int, list[float]] = {1: [], 4: []}
            for slower in [1, 4] * 5:
                page, seconds = opened(browser, file, slower)
                times[slower].append(seconds)
                page.close()
            page, _ = opened(browser, file, 1)
            begun, rows = time.perf_counter(), []
            for start in range(0, len(texts), 50):
                rows += page.evaluate(
                    "(all) => all.map((one) => [...window.encoders[0].encode(one)])",
                    texts[start : start + 50],
                )
            each = 1000 * (time.perf_counter() - begun) / len(texts)
            found = np.array(rows)
            cosines = (found[first] * found[second]).sum(axis=1)
            print(
                f"{precision}: {file.stat().st_size / 1e6:.1f} MB, first ranking after "
                f"{median(times[1]):.1f} s, "
                f"throttled 4 times {median(times[4]):.1f} s, {each:.0f} ms a sentence, "
                "cosines within "
                f"{np.abs(cosines - own).max():.1e}, Spearman "
                f"{100 * spearman(pairs.gold, cosines):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
