"""A key from the environment as a header of requests; no address, row or message ever holds it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from groundrows.schemas.errors import SetupError

KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
"""Environment variables that may hold the key; the first that does is taken."""

_HEADER = "x-goog-api-key"


class ApiKey:
    """The header with the key.

    Attributes:
        key: The key, so that it can be taken out of what the service says.

    Raises:
        SetupError: No variable holds a key, or what it holds is none.
    """

    def __init__(self) -> None:
        self.key = api_key()
        self._headers = {_HEADER: self.key}

    def __repr__(self) -> str:
        return "ApiKey()"

    async def get(self) -> Mapping[str, str]:
        """The headers for a request."""
        return self._headers

    def close(self) -> None:
        """Nothing is held."""


def api_key() -> str:
    """The key that the environment holds.

    Raises:
        SetupError: There is none, or it is none.
    """
    for name in KEY_VARIABLES:
        key = os.environ.get(name, "").strip()
        if key:
            if not (key.isascii() and key.isprintable() and " " not in key):
                raise SetupError(f"{name} holds no API key: set it to the key and nothing else.")
            return key
    raise SetupError(
        f"There is no API key: set {KEY_VARIABLES[0]}, or give --location=projects/P/locations/L to ask with "
        "the credentials of Google Cloud."
    )
