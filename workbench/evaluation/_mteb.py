"""An encoder of ours as the benchmark library mteb takes one; needs the extra `mteb`."""

from typing import Any

from workbench.evaluation._evaluate import encoder_of
from workbench.installation import require_modules


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
