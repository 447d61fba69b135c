"""Sends an API key from the environment as a header. The key is never part of a URL, a row or a message."""

from __future__ import annotations

import os
from collections.abc import Mapping

from groundrows.schemas.errors import SetupError

KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
"""The environment variables for the key. The first one that is set is used."""

_HEADER = "x-goog-api-key"


class ApiKey:
    """The header with the key.

    Attributes:
        key: The key. It is needed to remove it from the service's messages.

    Raises:
        SetupError: No variable is set, or its value is not a key.
    """

    def __init__(self) -> None:
        self.key = api_key()
        self._headers = {_HEADER: self.key}

    def __repr__(self) -> str:
        return "ApiKey()"

    async def get(self) -> Mapping[str, str]:
        """Return the headers for a request."""
        return self._headers

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def api_key() -> str:
    """Return the key from the environment.

    Raises:
        SetupError: No variable is set, or its value is not a key.
    """
    for name in KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key:
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise SetupError(f"{name} is not an API key: set it to the key and nothing else.")
            return key
    raise SetupError(
        f"There is no API key: set {KEY_VARIABLES[0]}, or give --location=projects/P/locations/L to use the "
        "credentials of Google Cloud."
    )
