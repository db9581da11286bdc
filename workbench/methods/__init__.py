"""The methods by name. To add one, import it and add it to METHODS."""

from workbench.methods.base import Method as Method
from workbench.methods.compcse import CompCSE
from workbench.methods.cosent import CoSENT
from workbench.methods.lists import Lists
from workbench.methods.mixed import Mixed
from workbench.methods.rankcse import RankCSE
from workbench.methods.rankencoder import RankEncoder
from workbench.methods.simcse import SimCSE

METHODS: dict[str, type[Method]] = {
    kind.config_class.method: kind
    for kind in (SimCSE, RankCSE, CoSENT, CompCSE, RankEncoder, Mixed, Lists)
}
