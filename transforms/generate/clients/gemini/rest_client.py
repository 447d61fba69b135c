"""Calls Gemini over REST. Requests and responses are JSON and are not converted to other messages."""

from __future__ import annotations

from urllib.parse import quote

from yarl import URL

from groundrows.schemas.codes import EMPTY_ANSWER
from groundrows.schemas.errors import CallError, SetupError, UndecodableError
from groundrows.schemas.gemini.platform import is_agent_platform
from groundrows.schemas.gemini.reading import judged
from groundrows.schemas.gemini.request import parted
from groundrows.schemas.spending import Spent
from groundrows.transforms.generate.clients.api_key import ApiKey
from groundrows.transforms.generate.clients.base import Call, Reply
from groundrows.transforms.generate.clients.credentials import AuthHeaders
from groundrows.transforms.generate.clients.http_post import Auth, HttpPost
from groundrows.transforms.generate.clients.reply import read_reply
from groundrows.transforms.generate.clients.status import no_message
from groundrows.transforms.generate.settings import CallSettings


class RestClient:
    """Calls `generateContent` (streamed or not) of the Agent Platform or the Developer API.

    It must be created on the event loop that will use it.

    Raises:
        SetupError: There are no credentials, or location and version belong to different platforms.
    """

    def __init__(self, settings: CallSettings) -> None:
        if is_agent_platform(settings.api_version) != bool(settings.location):
            raise SetupError(
                f"{settings.api_version} is called {'without' if settings.location else 'with'} a location: "
                f"leave out --api_version, or {'leave out' if settings.location else 'give'} --location."
            )
        scheme = "https" if settings.secure else "http"
        self._server = f"{scheme}://{settings.endpoint}/{settings.api_version}"
        self._streamed = settings.stream_answers
        self._verb = "streamGenerateContent" if settings.stream_answers else "generateContent"
        self._auth = _auth(settings)
        self._http = HttpPost(settings, self._auth)

    async def ask(self, call: Call, deadline: float) -> Reply:
        """See `Client.ask`."""
        model, headers, body = parted(call.request)
        url = URL(f"{self._server}/{quote(model, safe='/')}:{self._verb}", encoded=True)
        try:
            response, first_part_ms = await self._http.post(
                url, body, deadline, is_array=self._streamed, headers=headers
            )
            spent = self._check(response, deadline)
        except CallError as error:
            raise self._without_key(error) from None
        return Reply(response, first_part_ms, spent=spent)

    def _check(self, response: bytes, deadline: float) -> Spent | None:
        """Check that a response can be decoded, contains no error, and has an answer or says why not.

        Returns:
            The tokens and searches that it used, if it reports them.

        Raises:
            CallError: The check fails. A final refusal to answer is not an error: it is the answer.
        """
        read = read_reply(response, deadline, is_array=self._streamed)
        if isinstance(read, list) != self._streamed:
            raise no_message(len(response))
        try:
            unanswered, spent = judged(read)
        except UndecodableError:
            raise no_message(len(response)) from None
        if unanswered is not None and unanswered.code == EMPTY_ANSWER:
            raise CallError(EMPTY_ANSWER, unanswered.message, spent=spent)
        return spent

    def _without_key(self, error: CallError) -> CallError:
        """Return the error without the key. Its message comes from the service and is written to rows."""
        key = self._auth.key if isinstance(self._auth, ApiKey) else None
        if key is not None and key in error.message:
            said = error.message.replace(key, "…")
            return CallError(error.code, said, error.retry_after, error.day_quota, error.spent)
        return error

    async def close(self) -> None:
        """See `Client.close`."""
        await self._http.close()


def _auth(settings: CallSettings) -> Auth | None:
    if not settings.secure:
        return None
    return AuthHeaders(settings.endpoint) if settings.location else ApiKey()
