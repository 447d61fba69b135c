"""Makes a client of Gemini."""

from __future__ import annotations

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.clients.gemini.rest_client import RestClient
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """Make a REST client. Call it on the event loop that will use the client.

    Raises:
        SetupError: There are no credentials, or Gemini does not have the method or the transport.
    """
    if settings.method != "generate":
        raise SetupError("Gemini has no method that checks answers: use the service discoveryengine.")
    if settings.transport != "rest":
        raise SetupError("Gemini is called over REST only: give --transport=rest.")
    return RestClient(settings)
