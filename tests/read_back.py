"""What a reader gives for what a writer was given."""

from typing import Any


def read_back(value: Any) -> Any:
    """The value as it comes back from a file: a union's branch is named to the writer only."""
    if isinstance(value, tuple):
        return read_back(value[1])
    if isinstance(value, dict):
        return {name: read_back(item) for name, item in value.items()}
    if isinstance(value, list):
        return [read_back(item) for item in value]
    return value
