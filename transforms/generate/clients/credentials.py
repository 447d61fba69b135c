"""Application Default Credentials as headers of HTTP requests, refreshed in time and off the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC
from functools import partial
from typing import Any

from groundrows.schemas.errors import CallError, SetupError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)

# From this long before a token expires on, a new one is fetched while the old one is still used; it is
# google-auth's own figure, by which the metadata server's cache goes as well.
REFRESH_SECONDS = 225.0
# No call may leave with a token that expires under way.
MARGIN_SECONDS = 10.0
# How soon it is tried again when there was no newer token to be had.
PAUSE_SECONDS = 20.0
FETCH_TIMEOUT_SECONDS = 20.0


def no_credentials(endpoint: str, error: Exception) -> SetupError:
    """What to say when there are no credentials."""
    return SetupError(
        f"No credentials for {endpoint}: {error}. Run `gcloud auth application-default login` "
        "or set GOOGLE_APPLICATION_CREDENTIALS."
    )


class AuthHeaders:
    """The headers that say in whose name, and at whose cost, a request is made. Used from one event loop.

    Args:
        endpoint: Whom they are for, for the message when there are none.

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
        """The headers for a request that leaves now; waits only when there is no token that still holds.

        Raises:
            CallError: No token can be had.
        """
        now = time.time()
        expired = now >= self._expires_at
        refreshing = self._refreshing
        if refreshing is None and (expired or now >= self._refresh_at):
            refreshing = self._refreshing = asyncio.get_running_loop().create_task(self._refresh())
            refreshing.add_done_callback(_look_at_error)
        if expired and refreshing is not None:
            # One fetch for all who wait; none of them may end it for the others.
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
        """A new token's headers, and when it expires in seconds since 1970: in a thread, for it blocks."""
        headers: dict[str, str] = {}
        self._credentials.refresh(self._request)
        self._credentials.apply(headers)
        expiry = self._credentials.expiry
        return headers, float("inf") if expiry is None else expiry.replace(tzinfo=UTC).timestamp()

    def close(self) -> None:
        """Wait for nothing any more."""
        if self._refreshing is not None:
            self._refreshing.cancel()


def _look_at_error(refreshing: asyncio.Task[None]) -> None:
    # While the old token holds nobody waits for a new one, and the next to come without one tries again.
    if not refreshing.cancelled():
        refreshing.exception()
