"""The methods, by name; each is loaded when it is first asked for."""

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from workbench.errors import unknown_name

if TYPE_CHECKING:
    from workbench.methods.protocol import Method

_PLACES = {
    "cosent": ("workbench.methods.cosent", "CoSENT"),
    "simcse": ("workbench.methods.simcse", "SimCSE"),
    "rankcse": ("workbench.methods.rankcse", "RankCSE"),
    "compcse": ("workbench.methods.compcse", "CompCSE"),
    "rankencoder": ("workbench.methods.rankencoder", "RankEncoder"),
}


class _Methods(Mapping[str, "type[Method]"]):
    """name -> class; a sixth method is one more line in the table above."""

    def __getitem__(self, name: str) -> "type[Method]":
        if name not in _PLACES:
            raise KeyError(unknown_name("method", name, _PLACES, "in this workbench"))
        module, attribute = _PLACES[name]
        return getattr(importlib.import_module(module), attribute)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)


METHODS: Mapping[str, "type[Method]"] = _Methods()

__all__ = ["METHODS"]
