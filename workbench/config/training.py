"""The settings that every method's training shares; a method's own file changes and adds."""

from pathlib import Path
from typing import Any, ClassVar, Literal

import pydantic

from workbench.config.machinery import OWN_FILES, Settings, setting

Pooling = Literal["cls", "mean", "first_last", "embedding_last", "max", "mask"]

SEVEN_STS = ["sts12-test", "sts13-test", "sts14-test", "sts15-test", "sts16-test", "stsb-test", "sick-test"]

BUNDLED_MODELS = ("world-encoder", "world-teacher")

# The bundled world: what every "demo" profile trains on and reports.
DEMO_DATA: dict[str, Any] = {
    "encoder": "world-encoder",
    "train": "world",
    "dev": "world-dev",
    "suites": ["world-test"],
}


def whole_folder(name: str | None) -> str | None:
    """A folder, which need not exist yet, by its whole path."""
    return None if name is None else str(Path(name).expanduser().resolve())


def whole_path(name: str) -> str:
    """A folder or table of the user's own by its whole path: a headless run's notebook has another working folder."""
    path = Path(name).expanduser()
    own = path.is_dir() if name not in BUNDLED_MODELS else False
    return str(path.resolve()) if own or (name.endswith(OWN_FILES) and path.is_file()) else name


class TrainingConfig(Settings):
    """Encoder, data, optimisation and hardware of one training run."""

    outside_digest: ClassVar[frozenset[str]] = Settings.outside_digest | {
        "log_steps",
        "save_steps",
        "chunk_size",
        "track",
    }

    encoder: str = setting(
        "bert-base-uncased",
        "the starting encoder: bundled name, local folder (of a finished run: its encoder) or hub id",
        source="SimCSE sec. 6",
    )
    pooling: Pooling = setting("cls", "how token states become one sentence vector", source="SimCSE sec. 6.3")
    max_tokens: int = setting(32, "training sentences are cut here, specials included", unit="tokens", ge=3)
    dropout: float | None = setting(
        None,
        "dropout rate of the backbone in training; none: the checkpoint's own",
        source="SimCSE table 2",
        ge=0,
        lt=1,
    )
    train: str = setting("wiki1m", "training set: a catalogue name or a file of your own", source="SimCSE sec. 6")
    train_limit: int | None = setting(
        None, "train on a seeded sample of this many examples; none: all", unit="examples", ge=2
    )
    dev: str = setting("stsb-dev", "scored pairs that choose the checkpoint", source="SimCSE sec. 6.1")
    suites: list[str] = setting(SEVEN_STS, "scored pairs reported at the end", source="SimCSE sec. 6.1", min_length=1)
    revisions: dict[str, str] = setting({}, "hub id -> git revision, instead of the catalogue's")
    batch_size: int = setting(
        64, "sentences a step, over all processes", unit="sentences", source="SimCSE app. A", ge=2
    )
    epochs: float = setting(1.0, "passes over the training set", unit="epochs", source="SimCSE app. A", gt=0)
    max_steps: int | None = setting(None, "stop after this many steps; none: as epochs say", unit="steps", ge=1)
    learning_rate: float = setting(
        3e-5, "AdamW's peak step size; it decays linearly to 0", source="SimCSE app. A", gt=0
    )
    weight_decay: float = setting(0.0, "AdamW's decoupled decay", ge=0)
    warmup: float = setting(0.0, "share of the steps in which the learning rate rises linearly from 0", ge=0, lt=1)
    max_grad_norm: float = setting(1.0, "gradients are scaled down to this norm", gt=0)
    eval_steps: int = setting(125, "dev Spearman is measured every so many steps", unit="steps", ge=1)
    patience: int | None = setting(
        None,
        "training ends after so many evaluations in a row without a better dev Spearman; none: never early",
        unit="evaluations",
        ge=1,
    )
    save_steps: int = setting(
        500, "the training state is saved every so many steps, to resume from after a kill", unit="steps", ge=1
    )
    log_steps: int = setting(10, "losses are logged every so many steps", unit="steps", ge=1)
    track: Literal["tensorboard", "trackio", "wandb", "mlflow"] | None = setting(
        None, "where the rows of a run's history are sent too, as they come; none: nowhere"
    )
    precision: Literal["auto", "fp32", "bf16", "fp16"] = setting(
        "auto", "bf16 where the hardware multiplies it fast, else fp32; fp16 on GPUs alone; losses are always fp32"
    )
    chunk_size: int | None = setting(
        None,
        "texts that the encoder reads at a time in a step, each chunk computed twice: the loss of the whole batch in "
        "the memory of a chunk; none: all at once",
        unit="texts",
        ge=1,
    )
    device: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "where to compute; auto takes the best there is")
    processes: int = setting(1, "training processes (one a GPU); each takes an equal share of the batch", ge=1)

    @property
    def train_kinds(self) -> tuple[str, ...]:
        """The kinds of training set that the method reads."""
        return ("sentences",)

    @property
    def data_sets(self) -> dict[str, tuple[list[str], tuple[str, ...]]]:
        """Setting -> the sets that it names, and the kinds that it takes."""
        return {
            "train": ([self.train], self.train_kinds),
            "dev": ([self.dev], ("pairs",)),
            "suites": (self.suites, ("pairs",)),
        }

    @property
    def checkpoints(self) -> list[str]:
        """The encoders that training loads, by name."""
        return [self.encoder]

    @pydantic.field_validator("encoder", "train", "dev", "suites")
    @classmethod
    def _whole_paths(cls, value: str | list[str]) -> str | list[str]:
        """A folder or file of the user's own by its whole path: a run must not depend on where it was started."""
        return [whole_path(name) for name in value] if isinstance(value, list) else whole_path(value)

    @pydantic.field_validator("suites")
    @classmethod
    def _distinct(cls, suites: list[str]) -> list[str]:
        repeated = sorted({name for name in suites if suites.count(name) > 1})
        if repeated:
            raise ValueError(f"suites: {', '.join(repeated)} named more than once; name each set once")
        return suites

    @pydantic.model_validator(mode="after")
    def _fits_hardware(self) -> "TrainingConfig":
        if self.batch_size % self.processes:
            raise ValueError(
                f"batch_size {self.batch_size} cannot be shared equally by {self.processes} processes; "
                "give a multiple of processes"
            )
        if self.precision == "fp16" and self.device == "cpu":
            raise ValueError("precision: fp16 is for GPUs, and device is 'cpu'; give 'bf16', 'fp32' or 'auto'")
        return self
