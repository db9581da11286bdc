"""The methods, by name. Another one is one more line below."""

from typing import NoReturn

from workbench.errors import unknown_name
from workbench.methods.compcse import CompCSE
from workbench.methods.cosent import CoSENT
from workbench.methods.mixed import Mixed
from workbench.methods.protocol import Method as Method
from workbench.methods.rankcse import RankCSE
from workbench.methods.rankencoder import RankEncoder
from workbench.methods.simcse import SimCSE


class _Methods(dict[str, type[Method]]):
    def __missing__(self, name: str) -> NoReturn:
        raise KeyError(unknown_name("method", name, self, "in this workbench"))


METHODS = _Methods({kind.config_class.method: kind for kind in (SimCSE, RankCSE, CoSENT, CompCSE, RankEncoder, Mixed)})
