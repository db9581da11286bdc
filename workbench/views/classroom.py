"""A notebook in front of a class: readable from the last row."""

import anywidget
import traitlets

from workbench.views._style import HERE


class Projector(anywidget.AnyWidget):
    """The mode of the notebook in which it is shown, as of `projector`."""

    _esm = HERE / "projector.js"
    _css = HERE / "projector.css"
    theme = traitlets.Enum(["auto", "light", "dark", "off"], "auto").tag(sync=True)


def projector(is_on: bool = True, *, theme: str = "auto") -> Projector:
    """Show this notebook as a class can read it from the fifth row, or end that with False.

    Outputs, tables, widgets and figures get text of 20 pixels or more, at the full width, in black
    on white or white on black. Called once, it applies to every cell, earlier and later ones; it
    ends when its own output is removed, too. Ctrl+B hides the files on the left.

    Args:
        theme: "light", "dark", or "auto", which follows JupyterLab.

    Raises:
        TraitError: Another theme.

    Example:
        projector()  # in a cell of its own
    """
    return Projector(theme=theme if is_on else "off")
