"""Rank targets for a query that is typed, by several encoders side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.errors import DataError
from workbench.views._asked import ENCODER, open_encoders
from workbench.views._table import TypedView, text_area, value_of
from workbench.views.page import slope_image, slope_svg, view_html
from workbench.views.queries import QueryView

_SHOWN = 50  # targets, those nearest under gold or an encoder


class Ask(TypedView):
    """Rank targets for a query under each encoder, while they are typed: table and slope chart.

    Nothing is trained and no gold is needed: without it ranks are compared with those of the first encoder. Each
    sentence is encoded once, so an edit costs only what it changed. Of many targets the nearest are shown.
    """

    settable = ("query", "targets", "gold")
    query, targets, gold = map(value_of, settable)

    def __init__(
        self,
        encoders: Mapping[str, Any] | None = None,
        query: str = "",
        targets: Sequence[str] = (),
        *,
        gold: Sequence[float] = (),
    ) -> None:
        """Show a query; everything but the encoders can be edited in the view.

        Args:
            encoders: label -> a bundled name, a folder, a hub id, a `Run`, an `Encoder`, a method, or a function from
                sentences to vectors; None: the bundled encoder.
            targets: Sentences, such as those of a whole set.
            gold: One number for each target, at least 0, larger is closer.
        """
        self._vectors = open_encoders(encoders or {ENCODER: ENCODER})
        super().__init__(
            {
                "query": text_area("query", query),
                "targets": text_area("targets, one a line", "\n".join(targets), 8),
                "gold": text_area("gold of each (optional)", " ".join(map(str, gold)), 1),
            }
        )

    @property
    def selected(self) -> pd.DataFrame:
        """Return each target with gold and, by label, rank and score, the best first."""
        return self._view().table.reset_index(drop=True)

    def html(self, *, is_static: bool) -> str:
        return view_html(self._view(), chart=slope_image if is_static else slope_svg, targets=_SHOWN)

    def _view(self) -> QueryView:
        lines = [line for line in self.targets.splitlines() if line.strip()]
        if not self.query.strip() or not lines:
            raise DataError(f"no {'targets' if self.query.strip() else 'query'} yet; type one")
        gold = np.array(self.gold.replace(",", " ").split(), dtype=float)
        if len(gold) not in (0, len(lines)) or not (np.isfinite(gold) & (gold >= 0)).all():
            raise DataError(f"gold is {self.gold!r} for {len(lines)} targets; type one number for each, at least 0")
        rows = {label: vectors([self.query, *lines]) for label, vectors in self._vectors.items()}
        scores = {label: one[1:] @ one[0] for label, one in rows.items()}
        return QueryView.from_scores(self.query, lines, gold if len(gold) else None, scores)
