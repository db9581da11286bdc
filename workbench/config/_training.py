"""Settings of every method's training, which a method's own file changes and extends."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic
from annotated_types import Ge, MinLen

from workbench.config._settings import (
    Count,
    Cut,
    FileColumns,
    Fraction,
    NonNegative,
    Positive,
    Settings,
    Share,
    Value,
    Values,
    setting_text,
)
from workbench.errors import SettingError
from workbench.files import OWN_FILES, user_path

Pooling = Annotated[
    Literal["cls", "mean", "avg_first_last", "avg_embedding_last", "max", "mask", "pooler", "last"],
    Value,
]
SEVEN_STS = [
    "sts12-test",
    "sts13-test",
    "sts14-test",
    "sts15-test",
    "sts16-test",
    "stsb-test",
    "sick-test",
]

# Bundled encoders -> the dataset whose words each knows, and no others; "": English.
BUNDLED_MODELS = {"world-encoder": "world", "world-teacher": "world", "english-encoder": ""}


def whole_encoder(name: str) -> str:
    """Return the absolute path of a local encoder, other names as they are.

    So a run does not depend on the folder where it was started.
    A link is not resolved: its name may be the published one, from which the pooling of the
    checkpoint follows."""
    if name.startswith("st:"):
        return f"st:{whole_encoder(name.removeprefix('st:'))}"
    is_own = name.strip() and name not in BUNDLED_MODELS
    return _whole_path(name) if is_own and user_path(name).is_dir() else name


def _whole_path(name: str) -> str:
    # A link stays: the ending of a file and the name of a set may be its own.
    return os.path.abspath(user_path(name))  # noqa: PTH100


# Settings keep the names of local folders and files as absolute paths.
EncoderName = Annotated[str, MinLen(1), pydantic.AfterValidator(whole_encoder)]
SetName = Annotated[
    str,
    pydantic.AfterValidator(lambda name: _whole_path(name) if name.endswith(OWN_FILES) else name),
]
LocalPath = Annotated[str, pydantic.AfterValidator(_whole_path)]
Suites = Annotated[list[SetName], MinLen(1)]
Kinds = tuple[str, ...]  # of data sets
# Setting -> the datasets that it names, and the kinds that it accepts.
DataSets = dict[str, tuple[list[str], Kinds]]
AtLeastTwo = Annotated[int, Ge(2)]
Positives = Literal["dropout", "crop"]


class TrainingConfig(Settings):
    """Encoder, data, optimisation and hardware of one training run."""

    added = Settings.added | {"keep_start", "stop_below_start"}

    encoder: EncoderName = "bert-base-uncased"
    """the starting encoder: bundled name, local folder (of a finished run: its encoder) or hub id
    [SimCSE sec. 6]"""
    pooling: Pooling = "cls"
    """how token states become one sentence vector [SimCSE sec. 6.3]"""
    max_seq_length: Cut = 32
    """(tokens) training sentences are cut here, specials included [SimCSE's code]"""
    dropout: Fraction | None = None
    """dropout rate of the backbone in training; none: the checkpoint's, or 0.1 if that is 0 and
    views need it [SimCSE table 3]"""
    train: SetName = "wiki1m"
    """training set: a catalogue name or a file [SimCSE sec. 6]"""
    train_limit: AtLeastTwo | None = None
    """(examples) train on a seeded sample of this many examples; none: all"""
    dev: SetName = "stsb-dev"
    """scored pairs that choose the checkpoint; by the mean over several sets of the catalogue:
    stsb-dev+sick-trial [SimCSE sec. 6.1; RankEncoder's scripts]"""
    suites: Suites = SEVEN_STS
    """test sets: scored pairs, and transfer tasks (mr, cr, subj, mpqa, sst2, trec, mrpc) [SimCSE
    sec. 6.1]"""
    columns: FileColumns = {}
    """role -> column of your own files, such as sentence1=left,score=grade; a file takes those that
    it has and guesses the others"""
    revisions: dict[str, str] = {}
    """hub id of an encoder -> git revision"""
    batch_size: AtLeastTwo = 64
    """(sentences) sentences per step, over all processes [SimCSE app. A; CompCSE sec. 4]"""
    epochs: Positive = 1.0
    """(epochs) passes over the training set [SimCSE app. A]"""
    max_steps: Count | None = None
    """(steps) stop after this many steps; none: after epochs"""
    learning_rate: Positive = 3e-5
    """AdamW's peak step size; it decays linearly to 0 [SimCSE app. A; RankCSE table 9; CompCSE sec.
    4]"""
    weight_decay: NonNegative = 0.0
    """AdamW's decoupled decay, without biases and LayerNorms [SimCSE's code]"""
    warmup: Fraction = 0.0
    """share of the steps in which the learning rate rises linearly from 0 [SimCSE's code]"""
    max_grad_norm: Positive = 1.0
    """gradients are scaled down to this norm [SimCSE's code]"""
    eval_steps: Count = 125
    """(steps) steps between two evaluations on dev [RankCSE app. A; CompCSE sec. 4]"""
    patience: Count | None = None
    """(evaluations) training ends after this many evaluations without a better dev Spearman; none:
    never early"""
    keep_start: bool = False
    """the start may be kept too, if no step is better on dev; true by default if train or dev is a
    file of your own"""
    stop_below_start: NonNegative | None = None
    """(Spearman x 100) training ends if dev is so far below the start in three evaluations; none:
    never; 3 if train or dev is a file"""
    save_steps: Count = 500
    """(steps) steps between two saved training states, from which an interrupted run continues"""
    logging_steps: Count = 10
    """(steps) steps between two logged losses"""
    report_to: Literal["tensorboard", "trackio", "wandb", "mlflow"] | None = None
    """experiment tracker that also gets the rows of a run's history"""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """auto: steps and dev in bf16 if the hardware multiplies it fast, all else in fp32; fp16 needs
    a GPU"""
    cuda_graphs: bool = False
    """a GPU replays recorded steps, which saves the launch of each kernel; docs/gpu.md says what
    was measured"""
    mini_batch_size: Count | None = None
    """(texts) texts that the encoder reads at a time, each chunk twice: the whole batch's loss in
    the memory of one chunk"""
    mini_batch_tokens: Count | None = None
    """(tokens) the same by tokens: at most this many in a chunk, or one text"""
    num_processes: Count = 1
    """training processes (one per GPU); each takes an equal share of the batch"""

    @classmethod
    def profile_values(cls, profile: str, given: Mapping[str, Any] = {}) -> Values:
        """Return a profile's values, changed for an encoder and for data of your own."""
        values = super().profile_values(profile)
        encoder = given.get("encoder", "world-encoder")
        if profile == "demo" and BUNDLED_MODELS.get(str(encoder)) != "world":
            # The rate of the world's poor start would ruin one that is tuned for sentences
            # (experiments/own_data.py).
            values |= {"learning_rate": 3e-5, "eval_steps": 10}
        if any(str(given.get(name)).endswith(OWN_FILES) for name in ("train", "dev")):
            # A well-tuned encoder often loses, so the start competes, and a ruined training ends.
            values |= {"keep_start": True, "stop_below_start": 3.0}
        # Epochs that are given count, not the profile's steps.
        if "epochs" in given and "max_steps" not in given:
            values["max_steps"] = None
        return values

    @property
    def recipe(self) -> str:
        """Text on settings that the start or own data changed; empty if there are none."""
        changed = self.changed()
        usual = self.profile_values(self.profile)
        chosen = self.profile_values(self.profile, dict(self))
        texts = [
            f"{name} is {setting_text(value)}"
            for name, value in chosen.items()
            if value != usual.get(name) and name not in changed
        ]
        reason = "for an encoder that is not of the bundled world, or for your own data"
        return f"{', '.join(texts)}: {reason}" if texts else ""

    @property
    def train_kinds(self) -> Kinds:
        """The kinds of training set that the method can read."""
        return ("sentences",)

    @property
    def dev_sets(self) -> list[str]:
        """The names of the sets of dev; a file is one."""
        return [self.dev] if self.dev.endswith(OWN_FILES) else self.dev.split("+")

    @property
    def data_sets(self) -> DataSets:
        """Setting -> the datasets that it names, and the kinds that it accepts."""
        return {
            "train": ([self.train], self.train_kinds),
            "dev": (self.dev_sets, ("pairs",)),
            "suites": (self.suites, ("pairs", "transfer tasks")),
        }

    @property
    def checkpoints(self) -> list[str]:
        """Names of the encoders that training loads."""
        return [self.encoder]

    @property
    def dropout_views(self) -> bool:
        """Whether the two views of a sentence differ by dropout alone."""
        return False

    def require_pooling(self, own: Pooling | None) -> None:
        """Raise SettingError if a default would silently replace the start's own pooling."""
        if own in (None, self.pooling) or "pooling" in self.model_fields_set:
            return
        # A profile may choose the pooling of its own encoder.
        if "pooling" in self.profile_values(self.profile) and "encoder" not in self.changed():
            return
        raise SettingError(
            f"pooling: the files or the name of {self.encoder} say {own!r}, the default of "
            f"{self.method} {self.pooling!r}; set pooling={own} to keep it, or "
            f"pooling={self.pooling} to replace it"
        )

    @pydantic.model_validator(mode="after")
    def _fits_hardware(self) -> "TrainingConfig":
        if self.batch_size % self.num_processes:
            raise ValueError(
                f"batch_size {self.batch_size} is not a multiple of num_processes "
                f"({self.num_processes})"
            )
        return self


class SupervisedConfig(TrainingConfig):
    """Settings of training on scored pairs; the defaults are the optimisation of CoSENT's paper."""

    pooling: Pooling = "mean"
    """[CoSENT sec. IV-C]"""
    epochs: Positive = 4.0
    """[CoSENT sec. IV-C]"""
    learning_rate: Positive = 2e-5
    """[CoSENT sec. IV-C]"""
    weight_decay: NonNegative = 0.01
    """[CoSENT sec. IV-C]"""
    warmup: Fraction = 0.1
    """[CoSENT sec. IV-C]"""
    eval_steps: Count = 125
    """[CoSENT's code: 1000, and each epoch's end]"""

    @property
    def train_kinds(self) -> Kinds:
        return ("pairs",)


class ContrastiveConfig(TrainingConfig):
    """Settings of unsupervised SimCSE, which other methods extend.

    The defaults are those published for BERT-base."""

    mlm_weight: NonNegative = 0.0
    """weight of masked language modelling, which improves transfer tasks [SimCSE's code: 0.1;
    RankEncoder table 3]"""
    temperature: Positive = 0.05
    """tau of the infoNCE softmax; divides the cosines [SimCSE eq. 4]"""
    mlp: bool = True
    """a tanh layer on the sentence vector in training, dropped at test [SimCSE sec. 6.3]"""

    @property
    def dropout_views(self) -> bool:
        return True


class SimCSEConfig(ContrastiveConfig):
    """SimCSE, unsupervised or supervised."""

    method = "simcse"
    added = ContrastiveConfig.added | {"supervised", "positives", "crop_share"}

    supervised: bool = False
    """trains on triplets (anchor, positive, hard negative) instead of two dropout views of a
    sentence [SimCSE eq. 5]"""
    positives: Positives = "dropout"
    """the two views of a sentence; dropout: it is read twice; crop: two random runs of its words
    [SimCSE table 1]"""
    crop_share: Share = 0.5
    """crop: a run has at least this share of the words; the share is drawn between it and 1
    [SimCSE table 1]"""

    @property
    def train_kinds(self) -> Kinds:
        return ("triplets",) if self.supervised else ("sentences",)

    @property
    def dropout_views(self) -> bool:
        return not self.supervised and (self.positives == "dropout" or self.crop_share == 1)

    @pydantic.model_validator(mode="after")
    def _crops_sentences(self) -> "SimCSEConfig":
        if self.supervised and self.positives == "crop":
            raise ValueError("positives=crop needs sentences; set supervised=false")
        return self
