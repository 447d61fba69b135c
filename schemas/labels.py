"""Labels of a request, by the rules that all of Google Cloud has for them."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping

from groundrows.schemas.errors import RuleError
from groundrows.schemas.wording import kind_of, quoted

MAX_LABELS = 64
MAX_LABEL_CHARACTERS = 63

# Unicode's categories: lowercase letters and those of scripts without case; the marks that some scripts
# write on or beside them, and digits.
_LETTERS = frozenset({"Ll", "Lo", "Lm"})
_MARKS_AND_DIGITS = frozenset({"Mn", "Mc", "Nd", "Nl", "No"})


def check_labels(labels: Mapping[str, object]) -> None:
    """Check labels as they came in JSON, each by itself.

    Raises:
        RuleError: `INVALID_LABEL`.
    """
    for key, value in labels.items():
        path = f"user_labels[{quoted(key)}]"
        if not isinstance(value, str):
            raise RuleError("INVALID_LABEL", f"{path} is {kind_of(value)}: a label's value is a string")
        if not _is_label_key(key):
            raise RuleError(
                "INVALID_LABEL",
                f"{path} is no label key: 1 to {MAX_LABEL_CHARACTERS} lowercase letters, digits, _ or -, "
                "the first a letter",
            )
        if not _is_label_value(value):
            raise RuleError(
                "INVALID_LABEL",
                f"the value of {path} is no label value: at most {MAX_LABEL_CHARACTERS} lowercase letters, "
                "digits, _ or -",
            )


def check_label_count(count: int) -> None:
    """Check how many labels one request has."""
    if count > MAX_LABELS:
        raise RuleError("TOO_MANY_LABELS", f"user_labels has {count} labels: the service takes {MAX_LABELS}")


def _is_label_key(key: str) -> bool:
    return bool(key) and unicodedata.category(key[0]) in _LETTERS and _is_label_value(key)


def _is_label_value(value: str) -> bool:
    if len(value) > MAX_LABEL_CHARACTERS:
        return False
    return all(c in "_-" or unicodedata.category(c) in _LETTERS | _MARKS_AND_DIGITS for c in value)
