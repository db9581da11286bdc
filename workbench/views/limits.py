"""How much a view computes at most, to answer in seconds; DataError names a remedy for more."""

from workbench.errors import DataError

MOST_WORDS = 1_000  # of the sentences of `Why`
MOST_RELATIONS = 200  # rows of the heat map of `phenomena`
MOST_QUERIES = 20_000  # of `phenomena`
MOST_TARGETS = 3_000  # of one of its queries
MOST_SECTIONS = 300  # rows on a page, which a sentence on the page says


def require_at_most(count: int, most: int, what: str, remedy: str) -> None:
    """Raise DataError if there are more than `most`."""
    if count > most:
        raise DataError(f"{count:,} {what} are too many to show; at most {most:,}: {remedy}")
