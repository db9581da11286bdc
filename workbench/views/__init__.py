"""Looking at finished runs and their rankings: tables, figures, HTML, an explorer, questions of one's own.

Names (they stand in __init__.pyi) are loaded when first touched. No torch is; only what encodes needs it: `Ask` and
`Why`.
"""

from typing import Any

import lazy_loader

_loaded, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _loaded(name)
    except ModuleNotFoundError as missing:
        from workbench.installation import naming_its_extra

        raise naming_its_extra(missing) from None
