"""Encoders and results of ours as the benchmark library mteb takes them; needs the extra `mteb`."""

import logging
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workbench.evaluation._evaluate import encoder_of
from workbench.installation import require_modules
from workbench.runs import Run

_LOG = logging.getLogger("workbench")
_MEASURES = ("spearman", "kcc", "ndcg", "accuracy", "f1")


def for_mteb(model: Any, name: str) -> Any:
    """`model` for `mteb.evaluate(for_mteb(model, "me/mine"), tasks)`: what `evaluate` takes as vectors, `encode` first.

    name: "organisation/model", under which mteb keeps results. Raises EncoderError for what embeds nothing.
    """
    require_modules("mteb")
    from mteb.models.abs_encoder import AbsEncoder
    from mteb.models.model_meta import ModelMeta

    encode = encoder_of(model)

    class Adapted(AbsEncoder):
        mteb_model_meta = ModelMeta.create_empty({"name": name, "revision": "local"})

        def encode(self, inputs: Any, **_: Any) -> Any:
            return encode([text for batch in inputs for text in batch["text"]])

    return Adapted()


def to_mteb(run: Run, folder: str | Path, name: str = "") -> list[Path]:
    """Writes what a run was evaluated on in mteb's result format, a file a suite; the files.

    They lie as mteb keeps results, so that `mteb.ResultCache(folder)` loads them: results/<name>/<digest and seed>. A
    suite keeps its own name, since mteb's tasks are other texts or other rows; mteb keeps six decimals, in [-1, 1].

    name: "organisation/model"; "" is the run's method and folder. RunError where nothing was evaluated,
    ModuleNotFoundError without mteb.
    """
    require_modules("mteb")
    from mteb import ResultCache, TaskResult
    from mteb.models.model_meta import ModelMeta

    cache, revision, inputs = ResultCache(folder), run.path.name, run.facts()["inputs"]
    meta = ModelMeta.create_empty({"name": name or f"{run.config.method}/{revision}", "revision": revision})
    written = []
    for suite, values in run.metrics().items():
        if "n" not in values:  # an average of seven
            continue
        found = {measure: values[measure] for measure in _MEASURES if values.get(measure) is not None}
        main = found.get("accuracy", found.get("spearman"))
        if main is None:
            _LOG.warning("%s: its Spearman is undefined (all scores are equal), which mteb has no form for", suite)
            continue
        language = "zho-Hans" if suite.startswith("zh-") else "eng-Latn"
        scores: Any = {"test": [found | {"main_score": main, "hf_subset": "default", "languages": [language]}]}
        read = inputs.get(f"suite {suite}") or inputs[suite]
        facts = {"task_name": suite, "dataset_revision": read["sha256"], "mteb_version": version("mteb")}
        cache.save_to_cache(TaskResult(scores=scores, evaluation_time=None, **facts), meta)
        written.append(cache.get_task_result_path(suite, meta))
    return written
