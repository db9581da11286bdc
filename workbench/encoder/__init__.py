"""Sentence encoders, loaded and saved as AutoModel and SentenceTransformer do."""

from workbench.encoder._attention import PACKABLE as PACKABLE, fast_dropout as fast_dropout
from workbench.encoder._cross import CrossEncoder as CrossEncoder
from workbench.encoder._frozen import FrozenEncoder as FrozenEncoder, load_encoder as load_encoder
from workbench.encoder._hardware import pinned as pinned, to_device as to_device
from workbench.encoder._loading import (
    has_no_dropout as has_no_dropout,
    load_mlm_head as load_mlm_head,
    weights_checksum as weights_checksum,
)
from workbench.encoder._model import MULTIPLES as MULTIPLES, Encoder as Encoder
from workbench.encoder._publishing import push_folder as push_folder, push_run as push_run
from workbench.encoder._saving import Card as Card, replace_encoder as replace_encoder
from workbench.encoder._tokens import (
    Rows as Rows,
    TokenRows as TokenRows,
    sentence_chunks as sentence_chunks,
    special_tokens as special_tokens,
    token_ids as token_ids,
)
from workbench.encoder._vectors import (
    Encode as Encode,
    distinct_vectors as distinct_vectors,
    finite_array as finite_array,
    number_sentences as number_sentences,
    unit_rows as unit_rows,
)
