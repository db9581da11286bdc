"""How a checkpoint turns a sentence into a vector, and where its files are."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import ConfigDict

from workbench.config import Pooling, current_value, published_entry
from workbench.errors import EncoderError
from workbench.printing import LOG

POOLINGS = get_args(get_args(Pooling)[0])


@dataclass(frozen=True)
class EncodingSpec:
    """Pooling, template and prompt: everything besides the weights that decides a vector.

    template: text around a sentence, only for pooling "mask".
    full_stop: appended to a sentence that ends in none of `endings`.
    caution: difference from the published encoder; it is logged.
    prompt: text before a sentence. skips_prompt: its tokens are left out of the mean.
    has_dense: layers follow the pooling.
    similarity: "cosine" or "dot".
    """

    # An encoder.json with a key that is unknown here was written by a later version: refused.
    __pydantic_config__ = ConfigDict(extra="forbid")

    pooling: Pooling = "cls"
    template: str | None = None
    full_stop: str = ""
    endings: str = ""
    caution: str = ""
    prompt: str = ""
    skips_prompt: bool = False
    has_dense: bool = False
    similarity: str = "cosine"

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise EncoderError(f"pooling is {self.pooling!r}; choose one of {', '.join(POOLINGS)}")
        if self.template is not None and self.pooling != "mask":
            raise EncoderError(
                f"a template needs pooling='mask', not {self.pooling!r}; set it (of "
                "RankEncoder's E1 base_pooling), or remove the template"
            )

    def add_full_stop(self, sentence: str) -> str:
        """Return the sentence as the authors of the checkpoint put it into the template."""
        text = sentence.rstrip()
        if not (self.full_stop and text) or text[-1] in self.endings:
            return sentence
        return text + self.full_stop


def published_spec(name: str) -> EncodingSpec | None:
    """Return the spec of a published checkpoint by hub id or folder; None for an unknown name."""
    entry = published_entry(name)
    if entry is None:
        return None
    return EncodingSpec(**{key: value for key, value in entry.items() if key != "name"})


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on this machine.

    source: its origin, for the record.
    folder: where in `root` config, weights and tokenizer are.
    stored: the spec in its files.
    foreign: parts that an Encoder lacks: modules or similarity of a SentenceTransformer, the head
        of a classifier.
    max_seq_length: limit in tokens of a SentenceTransformer. prompts: its prompts by name.
    kind: "static" for one vector per token, "st" for what SentenceTransformer itself is to load.
    columns: how many its vector has, None for all.
    layers: kind and folder of the modules over its pooling.
    """

    name: str
    source: str
    root: Path
    folder: Path
    stored: EncodingSpec | None = None
    foreign: tuple[str, ...] = ()
    max_seq_length: int | None = None
    lower_case: bool = False
    prompts: dict[str, str] = field(default_factory=dict)
    kind: Literal["transformer", "static", "st"] = "transformer"
    columns: int | None = None
    layers: tuple[tuple[str, Path], ...] = ()

    @property
    def own_pooling(self) -> Pooling | None:
        """The pooling in its files, else that of its published name; None if neither has one."""
        spec = self.stored or published_spec(self.name)
        return spec and spec.pooling

    def spec(self, pooling: str | None = None, template: str | None = None) -> EncodingSpec | None:
        """Return the spec of this pooling; by default the stored one, else the published one.

        Returns:
            None if no pooling is given, and neither the files nor the name have one.

        Raises:
            EncoderError: The pooling is unknown, a template comes without pooling "mask", or the
                checkpoint has foreign parts and no pooling is given, or a pooling or template is
                given for one that has its own.
        """
        chosen = EncodingSpec(current_value(pooling)) if pooling else None
        if self.foreign and (chosen is None or self.kind == "static"):
            raise EncoderError(
                f"{self.name} was saved with {', '.join(self.foreign)}, which an Encoder "
                f"does not support; if SentenceTransformer saved it, evaluate it as "
                f"st:{self.name} (not with another similarity or model_type), or, of a "
                f"transformer, set pooling ({', '.join(POOLINGS)}) to use its backbone without that"
            )
        if self.kind != "transformer" and (pooling or template):
            raise EncoderError(
                f"{self.name} is evaluated, looked at and a teacher, but not trained; it has a "
                "pooling of its own: leave out pooling and template, also with pooling=none"
            )
        own = [self.stored.pooling] if self.stored else []
        saved = ", ".join([*own, *self.foreign])
        if chosen and saved not in ("", chosen.pooling):
            LOG.warning(
                "%s was saved with %s; pooling %r was asked for", self.name, saved, chosen.pooling
            )
        # A known spec of the same pooling comes first: it has template, full stop and prompt too.
        candidates = [self.stored, published_spec(self.name), chosen]
        if chosen:
            candidates = [one for one in candidates if one and one.pooling == chosen.pooling]
        spec = next(filter(None, candidates), None)
        if template is not None:
            spec = replace(spec or EncodingSpec(), template=template)
        if spec and spec.caution:
            LOG.warning("%s: %s", self.name, spec.caution)
        return spec
