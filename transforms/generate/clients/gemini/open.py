"""From the settings to a client of Gemini."""

from __future__ import annotations

from groundrows.schemas.errors import SetupError
from groundrows.transforms.generate.clients.base import Client
from groundrows.transforms.generate.clients.gemini.rest_client import RestClient
from groundrows.transforms.generate.settings import CallSettings


def open_client(settings: CallSettings) -> Client:
    """The REST client. Called on the loop that the client is used from.

    Raises:
        SetupError: There are no credentials, or the settings ask for what Gemini does not have.
    """
    if settings.method != "generate":
        raise SetupError("Gemini has no method that checks answers: check with the service discoveryengine.")
    if settings.transport != "rest":
        raise SetupError("Gemini is called over REST only: give --transport=rest.")
    return RestClient(settings)
