"""Words of a text, in scripts with and without spaces between them."""

import regex

# Chinese, Japanese, Thai, Lao, Burmese and Khmer write no spaces: each character counts as a word.
_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
# Marks belong to their letter: many words of Hindi differ in nothing but their vowel signs.
_WORD = regex.compile(
    rf"(?V1)[[{_SPACELESS}]--\p{{P}}]|[[\p{{L}}\p{{M}}\p{{N}}_]--[{_SPACELESS}]]+"
)
_WITH_SPACE = regex.compile(rf"(?:[{_SPACELESS}]|[^\s{_SPACELESS}]+)\s*")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def words_with_space(text: str) -> list[str]:
    """Return the words of a text with the space after each; joined they are the text again."""
    return _WITH_SPACE.findall(" ".join(text.split()))
