"""Makes HTTP headers from Application Default Credentials. Tokens are refreshed in time, in a thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC
from functools import partial
from typing import Any

from groundrows.schemas.errors import CallError, SetupError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

# A new token is fetched this long before the old one expires. google-auth and the metadata server's cache use
# the same number.
REFRESH_SECONDS = 225.0
# A call starts only with a token that is valid for at least this long.
MARGIN_SECONDS = 10.0
# The pause before the next try when no new token was available.
PAUSE_SECONDS = 20.0
FETCH_TIMEOUT_SECONDS = 20.0


def no_credentials(endpoint: str, error: Exception) -> SetupError:
    """Return the error that there are no credentials."""
    return SetupError(
        f"No credentials for {endpoint}: {error}. Run `gcloud auth application-default login` "
        "or set GOOGLE_APPLICATION_CREDENTIALS."
    )


class AuthHeaders:
    """The headers with the access token and the billed project. Used from one event loop.

    Args:
        endpoint: The server that they are for. The error about missing credentials names it.

    Raises:
        SetupError: There are no credentials.
    """

    def __init__(self, endpoint: str) -> None:
        import google.auth
        import google.auth.exceptions
        from google.auth.transport.requests import Request

        try:
            self._credentials, _ = google.auth.default(scopes=SCOPES)
        except google.auth.exceptions.GoogleAuthError as error:
            raise no_credentials(endpoint, error) from None
        self._failure: type[google.auth.exceptions.GoogleAuthError] = google.auth.exceptions.GoogleAuthError
        self._request: Any = partial(Request(), timeout=FETCH_TIMEOUT_SECONDS)
        self._headers: Mapping[str, str] = {}
        self._refresh_at = self._expires_at = 0.0
        self._refreshing: asyncio.Task[None] | None = None

    async def get(self) -> Mapping[str, str]:
        """Return the headers for a request that starts now. Waits only when there is no valid token.

        Raises:
            CallError: There is no token.
        """
        now = time.time()
        expired = now >= self._expires_at
        refreshing = self._refreshing
        if refreshing is None and (expired or now >= self._refresh_at):
            refreshing = self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            refreshing.add_done_callback(_look_at_error)
        if expired and refreshing is not None:
            # All waiting calls share one fetch. A call that is cancelled must not cancel it for the others.
            await asyncio.shield(refreshing)
        return self._headers

    async def _refresh(self) -> None:
        try:
            headers, expires_at = await asyncio.get_running_loop().run_in_executor(None, self._fetch)
        except self._failure as error:
            code = "UNAVAILABLE" if error.retryable else "UNAUTHENTICATED"
            raise CallError(code, f"no access token: {error.args[0] if error.args else error}") from None
        else:
            self._headers, self._expires_at = headers, expires_at - MARGIN_SECONDS
            self._refresh_at = expires_at - REFRESH_SECONDS
        finally:
            self._refresh_at = max(self._refresh_at, time.time() + PAUSE_SECONDS)
            self._refreshing = None

    def _fetch(self) -> tuple[dict[str, str], float]:
        """Return a new token's headers, and when it expires in seconds since 1970. Blocks."""
        headers: dict[str, str] = {}
        self._credentials.refresh(self._request)
        self._credentials.apply(headers)
        expiry = self._credentials.expiry
        return headers, float("inf") if expiry is None else expiry.replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        """Stop refreshing tokens."""
        if self._refreshing is not None:
            self._refreshing.cancel()


def _look_at_error(refreshing: asyncio.Task[None]) -> None:
    # Nothing waits for this refresh while the old token is valid. A later call without a token tries again.
    if not refreshing.cancelled():
        refreshing.exception()
