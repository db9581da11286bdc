"""The ranking workbench: train, compare and look at sentence encoders that keep the order of similar sentences.

Names are loaded when first touched, so that looking at finished runs never loads torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.bases import load_base
    from workbench.cache import cached_embeddings
    from workbench.config import (
        CONFIGS,
        CompCSEConfig,
        CoSENTConfig,
        RankCSEConfig,
        RankEncoderConfig,
        SimCSEConfig,
        TrainingConfig,
    )
    from workbench.config.bases import BaseConfig
    from workbench.data import load_dev, load_pairs, load_sentences, load_suites, load_training
    from workbench.encoder import Encoder
    from workbench.errors import DataError, EncoderError, RunError, SettingError, WorkbenchError
    from workbench.evaluation import Report, evaluate
    from workbench.headless import check_parameters
    from workbench.methods import METHODS
    from workbench.methods.compcse import CompCSE
    from workbench.methods.cosent import CoSENT
    from workbench.methods.rankcse import RankCSE
    from workbench.methods.rankencoder import RankEncoder, RankMixture
    from workbench.methods.simcse import SimCSE
    from workbench.runs import Run, list_runs, runs_folder
    from workbench.teachers import load_teacher
    from workbench.train import fit

_PLACES = {
    "workbench.bases": ["load_base"],
    "workbench.cache": ["cached_embeddings"],
    "workbench.config": [
        "CONFIGS",
        "CompCSEConfig",
        "CoSENTConfig",
        "RankCSEConfig",
        "RankEncoderConfig",
        "SimCSEConfig",
        "TrainingConfig",
    ],
    "workbench.config.bases": ["BaseConfig"],
    "workbench.data": ["load_dev", "load_pairs", "load_sentences", "load_suites", "load_training"],
    "workbench.encoder": ["Encoder"],
    "workbench.errors": ["DataError", "EncoderError", "RunError", "SettingError", "WorkbenchError"],
    "workbench.evaluation": ["Report", "evaluate"],
    "workbench.methods": ["METHODS"],
    "workbench.methods.rankcse": ["RankCSE"],
    "workbench.methods.rankencoder": ["RankEncoder", "RankMixture"],
    "workbench.methods.compcse": ["CompCSE"],
    "workbench.methods.cosent": ["CoSENT"],
    "workbench.methods.simcse": ["SimCSE"],
    "workbench.headless": ["check_parameters"],
    "workbench.runs": ["Run", "list_runs", "runs_folder"],
    "workbench.teachers": ["load_teacher"],
    "workbench.train": ["fit"],
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [  # noqa: PLE0604 - the table above is the list
    *sorted(_MODULE_OF)
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULE_OF])
