"""Settings of unsupervised SimCSE."""

from typing import Any, ClassVar

from workbench.config.machinery import setting
from workbench.config.training import DEMO_DATA, TrainingConfig


class SimCSEConfig(TrainingConfig):
    """Unsupervised SimCSE; the defaults are the published settings of BERT-base."""

    method: ClassVar[str] = "simcse"
    profiles: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {},
        "paper-bert-large": {"encoder": "bert-large-uncased", "learning_rate": 1e-5},
        "paper-roberta-base": {"encoder": "roberta-base", "batch_size": 512, "learning_rate": 1e-5},
        "paper-roberta-large": {"encoder": "roberta-large", "batch_size": 512, "learning_rate": 3e-5},
        "demo": {**DEMO_DATA, "learning_rate": 1e-3, "max_steps": 200, "eval_steps": 25, "save_steps": 50},
    }

    temperature: float = setting(0.05, "tau of the infoNCE softmax; divides the cosines", source="SimCSE eq. 4", gt=0)
    mlp: bool = setting(
        True, "a tanh layer on the sentence vector in training, dropped at test", source="SimCSE sec. 6.3"
    )
