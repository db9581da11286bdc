"""Encoders and results in the formats of the benchmark library mteb; needs the extra `mteb`."""

from importlib.metadata import version
from pathlib import Path
from typing import Any

from workbench.evaluation._evaluate import encoder_of
from workbench.installation import require_modules
from workbench.runs import Run

_MEASURES = ("spearman", "kcc", "ndcg", "accuracy", "f1")


def for_mteb(model: Any, name: str) -> Any:
    """Return `model` (an object with `encode`, or a function) for `mteb.evaluate`, as "organisation/model" `name`."""
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
    """Write a run's results in mteb's format, one file per suite, and return the files.

    `mteb.ResultCache(folder)` loads them. A suite keeps its own name, since mteb's tasks have other texts or rows; one
    whose Spearman is undefined has no file. name: "organisation/model", by default method and folder of the run.
    """
    require_modules("mteb")
    from mteb import ResultCache, TaskResult
    from mteb.models.model_meta import ModelMeta

    cache, revision, inputs = ResultCache(folder), run.path.name, run.facts()["inputs"]
    meta = ModelMeta.create_empty({"name": name or f"{run.config.method}/{revision}", "revision": revision})
    files = []
    for suite, values in run.metrics().items():
        scores = {measure: values[measure] for measure in _MEASURES if values.get(measure) is not None}
        main = scores.get("accuracy", scores.get("spearman"))
        if "n" not in values or main is None:  # the average of seven sets, or an undefined value
            continue
        language = "zho-Hans" if suite.startswith("zh-") else "eng-Latn"
        rows: Any = {"test": [scores | {"main_score": main, "hf_subset": "default", "languages": [language]}]}
        source = inputs.get(f"suite {suite}") or inputs[suite]
        facts = {"task_name": suite, "dataset_revision": source["sha256"], "mteb_version": version("mteb")}
        cache.save_to_cache(TaskResult(scores=rows, evaluation_time=None, **facts), meta)
        files.append(cache.get_task_result_path(suite, meta))
    return files
