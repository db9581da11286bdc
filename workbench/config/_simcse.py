"""Settings of unsupervised SimCSE."""

from workbench.config._training import DEMO, ContrastiveConfig


class SimCSEConfig(ContrastiveConfig):
    """Unsupervised SimCSE; the defaults are the published settings of BERT-base."""

    method = "simcse"
    profiles = {
        "paper": {},
        "paper-bert-large": {"encoder": "bert-large-uncased", "learning_rate": 1e-5},
        "paper-roberta-base": {"encoder": "roberta-base", "batch_size": 512, "learning_rate": 1e-5},
        "paper-roberta-large": {"encoder": "roberta-large", "batch_size": 512, "learning_rate": 3e-5},
        "demo": DEMO,
    }
