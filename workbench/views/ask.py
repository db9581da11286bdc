"""The live view `Ask`: targets that are typed, ranked for a query by several encoders."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pandas import DataFrame

from workbench.errors import DataError
from workbench.files import AnyPath
from workbench.views._style import render
from workbench.views._table import TypedView, text_area, value_of
from workbench.views.encoders import CachedEncoder, Encoders, usable_encoders, wrap_encoders
from workbench.views.export import write_page
from workbench.views.offline import Precision, write_offline
from workbench.views.page import view_html
from workbench.views.queries import QueryView

_SHOWN = 50  # targets, those nearest under an encoder


def require_text(sentences: list[str]) -> list[str]:
    """Return the sentences; DataError unless there are two or more, and none is empty."""
    if len(sentences) < 2 or not all(map(str.strip, sentences)):
        raise DataError("type a query and at least one target")
    return sentences


class Ask(TypedView):
    """Rank targets for a query under each encoder, while they are typed: table and slope chart.

    Ranks are compared with gold if it is known, otherwise with those of the first encoder. Each
    sentence is encoded once, so an edit costs only what it changed. Of many targets the nearest are
    shown."""

    settable = ("query", "targets")
    query, targets = map(value_of, settable)

    def __init__(
        self,
        encoders: Encoders = None,
        query: str = "",
        targets: str | Sequence[str] = (),
        *,
        pairs: Any = None,
    ) -> None:
        """Show a query; everything but the encoders can be edited in the view.

        Args:
            encoders: label -> a bundled name, a folder, a hub id, "word-overlap", a `Run`, an
                `Encoder`, a method, or a function from sentences to vectors; or a list of them;
                None: the bundled encoder.
            targets: Sentences, such as those of a whole set, or a text with one in each line.
            pairs: `Pairs`, or a table of pairs as of `PairExplorer`, whose gold is shown if they
                have it for the query with each target.

        Example:
            Ask(["english-encoder", "word-overlap"], "a cat sleeps", ["a dog runs", "the cat naps"])
        """
        self._encoders = wrap_encoders(encoders)
        self._gold = {}
        if pairs is not None:
            sentences = zip(pairs.sentence1, pairs.sentence2, strict=True)
            self._gold = dict(zip(sentences, pairs.gold, strict=True))
        lines = targets if isinstance(targets, str) else "\n".join(targets)
        fields = {
            "query": text_area("query", query),
            "targets": text_area("targets, one per line", lines, 8),
        }
        super().__init__(fields)

    @property
    def selected(self) -> DataFrame:
        """Return each target with rank and score by label, the best first."""
        return self._view(self._encoders).table.reset_index(drop=True)

    def html(self, *, is_live: bool) -> str:
        encoders, problems = usable_encoders(self._encoders, self._sentences())
        if not encoders:
            return problems
        return problems + view_html(self._view(encoders), is_live=is_live, targets=_SHOWN)

    def to_html(
        self, path: AnyPath, *, encoder: bool = False, precision: Precision = "int8"
    ) -> Path:
        """Write a page of the ranking, which any browser shows offline.

        Args:
            encoder: Pack the encoders into the page, which then ranks what is typed.
            precision: Of the weights in the page.

        Raises:
            EncoderError: A page cannot contain the encoder, see `offline.pack_encoder`.
            ValueError: Another precision.
        """
        if not encoder:
            page = render("titled.html", title="Ask", html=self.html(is_live=True))
            return write_page(path, page)
        query, *lines = self._sentences()
        models = {cached.label: cached.model for cached in self._encoders}
        return write_offline(path, models, query, lines, precision)

    def _sentences(self) -> list[str]:
        return require_text([self.query, *filter(str.strip, self.targets.split("\n"))])

    def _view(self, encoders: Sequence[CachedEncoder]) -> QueryView:
        query, *lines = self._sentences()
        # Cosines of pairs, as word overlap has no vectors worth keeping.
        queries = [query] * len(lines)
        scores = {encoder.label: encoder.cosines(queries, lines) for encoder in encoders}
        known = [self._gold.get((query, line)) for line in lines]
        # A rank by gold needs the gold of every target.
        gold = None if None in known else np.array(known)
        return QueryView.from_scores(query, lines, gold, scores)
