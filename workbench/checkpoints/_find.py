"""Find a checkpoint by its name: bundled, a folder, a run, or a repository of the hub."""

import math
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from workbench.checkpoints._files import (
    PLAIN_POOLINGS,
    SENTENCE_TRANSFORMER,
    SETTINGS_FILE,
    STEPS,
    USAGE_FILE,
    Modules,
    OtherFile,
    TransformerFile,
    UsageFile,
    read_file,
    read_modules,
    require_model_files,
)
from workbench.checkpoints._spec import Checkpoint, EncodingSpec
from workbench.config import BUNDLED_MODELS, PUBLISHED
from workbench.errors import EncoderError, did_you_mean
from workbench.files import (
    CORPUS,
    AnyPath,
    checkpoint_checksum,
    file_checksum,
    path_text,
    project_path,
    user_path,
)

HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")
_LAYERS = {"Dense", "Normalize"}  # the modules over a pooling that an Encoder has


def find_checkpoint(name: AnyPath, revision: str | None = None) -> Checkpoint:
    """Return the checkpoint of this name.

    Args:
        name: A bundled name, else a folder or a finished run, else a repository of the hub.
            "st:" before it leaves it to SentenceTransformer, to evaluate, to look at and as a
            teacher.
        revision: Branch, tag or commit of a hub id.

    Raises:
        EncoderError: There is none, or its files are not those of an encoder.
    """
    name = path_text(name)
    plain = name.removeprefix("st:")
    is_st = plain != name
    path = user_path(plain)
    if plain in BUNDLED_MODELS:
        root = project_path("data") / "models" / plain
        source = f"bundled:{plain}"
    elif plain and path.is_dir():
        root = encoder_folder(path.resolve())
        source = f"folder:{root}"
    elif path.exists() or not HUB_ID.fullmatch(plain):
        raise EncoderError(
            f"{plain!r} is neither a folder nor a hub id (owner/name), nor the label of runs here; "
            f"bundled encoders are {', '.join(map(repr, BUNDLED_MODELS))}"
        )
    else:
        files = PUBLISHED["files"]["st" if is_st else "encoder"]
        root = _download_files(plain, _revision_of(plain, revision), files)
        source = f"hub:{plain}@{root.name}"
    if revision and not source.startswith("hub:"):
        raise EncoderError(
            f"{name} is on this machine ({source}) and has no revision: leave it out"
        )
    if not is_st:
        return _inspect(root, name, source)
    kind = _model_type(root)
    # SentenceTransformer would replace such a model by a mean over tokens.
    if kind != SENTENCE_TRANSFORMER:
        raise EncoderError(
            f"{name} is a {kind}, which has no vector of a sentence; take a SentenceTransformer"
        )
    return Checkpoint(name, f"st:{source}", root, root, kind="st")


def _model_type(root: Path) -> str:
    return read_file(root / USAGE_FILE, OtherFile).model_type or SENTENCE_TRANSFORMER


def encoder_folder(folder: Path) -> Path:
    """Return the encoder's folder if `folder` is a finished run or its encoder, else `folder`.

    Raises EncoderError for an unfinished run, and for an encoder that was changed after its run
    saved it.
    """
    # Both the folder of a run and the encoder in it stand for the run, whose checksum is checked.
    run = folder
    if folder.name == "encoder" and (folder.parent / "metrics.json").is_file():
        run = folder.parent
    facts = read_file(run / "config.json", OtherFile)
    if facts.settings is None:
        return folder
    if not (run / "metrics.json").is_file():
        raise EncoderError(
            f"{folder} is a run that is not finished: finish it, or, once it has "
            f"one, use its best encoder so far: {folder / 'encoder'}"
        )
    checksums = {"encoder": checkpoint_checksum(run)}
    if (run / CORPUS).is_file():
        checksums[CORPUS] = file_checksum(run / CORPUS)
    for name, checksum in checksums.items():
        if facts.files.get(name, {}).get("sha256", checksum) != checksum:
            raise EncoderError(
                f"{run / name} was changed after the run saved it: restore it, or run again "
                "elsewhere"
            )
    return run / "encoder"


def _revision_of(name: str, revision: str | None) -> str | None:
    """Return the revision that is asked for, otherwise that of a published checkpoint, if any."""
    return revision or PUBLISHED["safetensors"].get(name)


def commit_on_hub(name: str, revision: str | None) -> str:
    """Return the commit that a repository of the hub has now; "" if the hub does not answer."""
    from huggingface_hub import HfApi

    revision = _revision_of(name, revision)
    with suppress(Exception):  # the hub's client raises a dozen unrelated types for "no network"
        return HfApi().model_info(name, revision=revision, timeout=10).sha or ""
    return ""


def _download_files(name: str, revision: str | None, files: list[str]) -> Path:
    """Return the snapshot of a hub repository in the local cache; fetch its missing files."""
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=files))
    except Exception as error:  # the hub's client raises a dozen unrelated types for "no network"
        # Any name that is less similar may well be one of the hub.
        near = did_you_mean(name, BUNDLED_MODELS, cutoff=0.9)
        raise EncoderError(
            f"{name!r}{near} is no local folder and cannot be fetched ({error}); without a "
            f"network, set HF_HOME to a cache filled by `hf download {name} --revision "
            f"{revision or 'main'}`, and HF_HUB_OFFLINE=1"
        ) from error


def _inspect(root: Path, name: str, source: str) -> Checkpoint:
    """Return the checkpoint that encoder.json and the files of a SentenceTransformer describe."""
    usage = UsageFile.model_validate({})
    modules = []
    skips_prompt = False
    foreign = []
    model_type = _model_type(root)
    if model_type == SENTENCE_TRANSFORMER:
        usage = read_file(root / USAGE_FILE, UsageFile)
        modules, skips_prompt = read_modules(root)
    else:
        foreign.append(f"model_type {model_type!r}")
    first, folder = modules[0] if modules else ("Transformer", root)
    if not modules and read_file(root / "config.json", OtherFile).model_type == "model2vec":
        first = "StaticEmbedding"
    if first == "Transformer":
        require_model_files(folder, name)
    similarity = usage.similarity_fn_name
    # Unit length at the end changes no cosine, and makes a dot product one.
    while usage.truncate_dim is None and modules[1:] and modules[-1][0] == "Normalize":
        modules.pop()
        similarity = "cosine" if similarity == "dot" else similarity
    if similarity not in ("cosine", "dot"):
        foreign.append(f"similarity {similarity!r}")
        similarity = "cosine"
    default = usage.default_prompt_name
    if default not in ("", "query", "document", *usage.prompts):
        foreign.append(f"default_prompt_name = {default!r}")
    prompt = usage.prompts.get(default, "")
    if first == "StaticEmbedding":
        others = {*dict(modules[1:]), similarity, prompt}
        foreign += sorted(others - {"Normalize", "cosine", ""})
    checkpoint = Checkpoint(
        name,
        source,
        root,
        folder,
        foreign=tuple(foreign),
        prompts=usage.prompts,
        columns=usage.truncate_dim,
    )
    if first == "StaticEmbedding":
        return replace(checkpoint, kind="static")
    spec = EncodingSpec(prompt=prompt, skips_prompt=skips_prompt, similarity=similarity)
    return _with_pooling(checkpoint, spec, modules)


def _with_pooling(checkpoint: Checkpoint, usage: EncodingSpec, modules: Modules) -> Checkpoint:
    """Return the checkpoint of a transformer with its pooling, its layers and its limit.

    usage: prompt and similarity of the SentenceTransformer. modules: without the last Normalize.
    """
    root = checkpoint.root
    settings = root / SETTINGS_FILE
    own = read_file(settings, EncodingSpec) if settings.is_file() else None
    kinds = [kind for kind, _ in modules]
    pooling = own.pooling if own else PLAIN_POOLINGS.get("".join(kinds[1:2]))
    expected = ["Transformer", *STEPS.get(pooling, ["Pooling"])]
    count = len(expected)
    has_known_layers = {*kinds[count:]} <= _LAYERS
    foreign = [*checkpoint.foreign]
    if kinds and not (kinds[:count] == expected and has_known_layers):
        foreign.append(f"the modules {', '.join(kinds)}")
    if usage.skips_prompt and pooling in ("cls", "max"):
        foreign.append(f"pooling {pooling!r} without its prompt")
    has_layers = bool(kinds[count:] or checkpoint.columns)
    stored = replace(usage, pooling=pooling or "cls", has_dense=has_layers and has_known_layers)
    # The files of a SentenceTransformer have no place for a template.
    own_usage = own and replace(own, template=None, full_stop="", endings="")
    if own and kinds and (foreign or own_usage != stored):
        raise EncoderError(
            f"{root}: {SETTINGS_FILE} and the files of SentenceTransformer differ ({kinds[1:]}); "
            f"restore the folder, or remove {SETTINGS_FILE} to read the others"
        )
    # The backbone under a classifier, such as a cross-encoder, was trained for no pooling.
    if not pooling:
        config = read_file(checkpoint.folder / "config.json", OtherFile)
        foreign += [kind for kind in config.architectures if "ForSequenceClassification" in kind]
    # "sentence_bert_config.json", formerly also those of roberta, albert, xlnet and others, but not
    # that of mpnet, which SentenceTransformer does not read.
    files = sorted(checkpoint.folder.glob("sentence_*[!p][en][re]t*_config.json")) if kinds else []
    cuts = read_file(files[0], TransformerFile) if files else TransformerFile.model_validate({})
    tokenizer = read_file(checkpoint.folder / "tokenizer_config.json", OtherFile)
    # Other kinds of models cut as their tokenizer says.
    limit = cuts.max_seq_length or tokenizer.model_max_length
    # The tokenizer's length counts in the encoder's checksum.
    if own and tokenizer.model_max_length not in (None, limit):
        raise EncoderError(
            f"{root}: {files[0].name} cuts at {limit} tokens and tokenizer_config.json at "
            f"{tokenizer.model_max_length:g}; write one length into both"
        )
    is_st = (root / "modules.json").is_file()
    return replace(
        checkpoint,
        stored=own or (stored if pooling else None),
        foreign=tuple(foreign),
        max_seq_length=int(limit) if is_st and limit and limit < math.inf else None,
        lower_case=cuts.do_lower_case,
        layers=tuple(modules[count:]),
    )
