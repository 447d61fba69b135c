"""The seam between Groundrows and a service that answers questions.

A service builds its requests from records, and reads its responses into the form of `response.py`. In between
requests and responses are bytes that nobody else looks into. Each service lives in a folder of its name here,
whose module `service` has three functions: `open_service` gives a `Service` for a version of the API,
`access` says how the service is reached, and `stored_json` shows a stored response. Its clients live in a
folder of the same name below `transforms/generate/clients`. To add a service, write both folders and add the
name to `SERVICES`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from groundrows.schemas.defaults import Defaults
    from groundrows.schemas.outcome import Answer
    from groundrows.schemas.response import CheckResponse, Response
    from groundrows.schemas.spending import Need

Method = Literal["generate", "check"]
"""What is called: `generate` asks a question, `check` checks an answer against facts."""

DISCOVERY_ENGINE = "discoveryengine"
"""The Grounded Generation API, which is the service wherever none is named."""

GEMINI = "gemini"
"""Gemini with grounding tools: the Agent Platform or the Developer API, by the version of the API."""

SERVICES: tuple[str, ...] = (DISCOVERY_ENGINE, GEMINI)
"""Every service by its name."""

FACTS_INSTRUCTION = (
    "Answer the question from the numbered facts below. If they do not hold the answer, say that they do not."
)
"""What stands above facts that a service takes as part of the prompt, unless the run says otherwise."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a service is reached from a location.

    Attributes:
        endpoint: `HOST:PORT`, over TLS; None when the location has none that is known.
        versions: The versions of the API that are there, the usual one first.
        transports: `grpc` or `rest` or both, the usual one first.
        regions: The regions that are known, where not every one is.
        reports_usage: Whether responses say how many tokens and searches they took.
    """

    endpoint: str | None
    versions: tuple[str, ...]
    transports: tuple[str, ...]
    regions: tuple[str, ...] = ()
    reports_usage: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What rows say of a request for an answer.

    Attributes:
        request_json: The request in the service's JSON form.
        model_id: The model it names, if it names one.
        asks_google: Whether Google Search is one of its grounding sources.
    """

    request_json: str
    model_id: str | None
    asks_google: bool


@dataclass(frozen=True, slots=True)
class AskedCheck:
    """What rows say of a request for a check.

    Attributes:
        request_json: The request in the service's JSON form.
        citation_threshold: From which score on it has facts cited, if it says so.
        fact_count: How many facts it has.
    """

    request_json: str
    citation_threshold: float | None
    fact_count: int


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How the requests of a run are built, whatever the service.

    Attributes:
        transport: How they will be sent, `grpc` or `rest`: not everything fits into both.
        defaults: The request that is laid under every record's own, or None.
        model: The model of requests for which neither record nor defaults name one, or None.
        facts_instruction: What stands above facts in a prompt, where a service takes them there alone.
    """

    transport: str = "grpc"
    defaults: Defaults | None = None
    model: str | None = None
    facts_instruction: str = FACTS_INSTRUCTION


@dataclass(frozen=True, slots=True)
class Built:
    """A request as a record wants it.

    Attributes:
        request: The request, whole but for the address; equal records give equal bytes.
        text: What it asks: the user's last words, or the answer to be checked.
        user_context: What is sent beside the request, as JSON, or None.
    """

    request: bytes
    text: str
    user_context: str | None = None


class RequestBuilder(Protocol):
    """Builds the requests of records that are read with the same settings."""

    def build(self, question: str | None, fields: Mapping[str, object]) -> Built:
        """Build the request of a record's first turn.

        Args:
            question: What the first turn asks; None when the record has `contents`, a conversation in the
                service's own form.
            fields: The record's fields as JSON values, by name and without nulls. Only `contents` and the
                service's own `fields` are looked at.

        Raises:
            RuleError: The record breaks a rule; the message says which and where.
        """
        ...

    def instruction(self, value: object, path: str) -> bytes:
        """Read a turn's own system instruction, a JSON value, for `Service.turn_request`.

        Args:
            value: The instruction.
            path: Where it stands in the record, for messages.

        Raises:
            RuleError: It can't be used.
        """
        ...


class Service(Protocol):
    """One version of a service's API.

    Where a method takes a request or a response, it raises `UndecodableError` for bytes that are none.
    """

    @property
    def message_version(self) -> str:
        """The version whose messages this version uses, which need not be its own name."""
        ...

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields in snake_case that records and request defaults may have for this service."""
        ...

    def requests(self, settings: BuildSettings) -> RequestBuilder:
        """What builds the requests of records.

        Raises:
            ValueError: one sentence, when no request can be built with these settings.
        """
        ...

    def default_request(self, fields: Mapping[str, object]) -> Built:
        """Build the request that is laid under every record's own; its text is empty.

        Args:
            fields: JSON values by names out of `fields`, without nulls.

        Raises:
            RuleError: A rule is broken.
        """
        ...

    def home_of(self, field: str) -> str | None:
        """Inside which of `fields` a field belongs, if one of them has a field of that name."""
        ...

    def turn_request(
        self,
        request: bytes,
        method: Method,
        location: str,
        history: Sequence[tuple[str, str]] = (),
        text: str = "",
        instruction: bytes | None = None,
    ) -> bytes:
        """The request for a turn as it is sent: addressed, with the history of the turns before it.

        Args:
            request: The request of the first turn, as built.
            method: What it calls.
            location: Whom it is addressed to: `projects/P/locations/L`, or empty for a service that is asked
                in nobody's name.
            history: What was asked and what was answered in each turn so far; empty for the first turn.
            text: What a later turn asks.
            instruction: A system instruction that takes the place of the request's own, or None.
        """
        ...

    def asked(self, request: bytes) -> Asked:
        """What rows say of a request for an answer."""
        ...

    def model_of(self, request: bytes) -> str:
        """The model that a request for an answer names; empty when it leaves the choice to the service."""
        ...

    def text_characters(self, request: bytes, method: Method) -> int:
        """Characters of what a model reads of a request, facts and instructions included."""
        ...

    def need(self, request: bytes) -> Need | None:
        """What a request for an answer may take; None when the service does not report what calls took."""
        ...

    def read(self, answer: Answer, *, keep: bool) -> Response:
        """Read the response to a turn.

        Args:
            answer: The response as it came, and how.
            keep: Whether the whole response is wanted as JSON.
        """
        ...

    def said(self, answer: Answer) -> str | None:
        """What the response to a turn answers, for the history: the text of the candidate number 0.

        It costs less than `read`. None when there is no candidate.
        """
        ...


@runtime_checkable
class CheckService(Service, Protocol):
    """A service that checks answers, too."""

    @property
    def check_fields(self) -> tuple[str, ...]:
        """Fields of a record, in snake_case, that a check is made of, beside the answer."""
        ...

    def build_check(
        self, answer: object, path: str, fields: Mapping[str, object], threshold: float | None, scores: bool
    ) -> Built:
        """Build the request of a record that wants an answer checked.

        Args:
            answer: The answer, a JSON value.
            path: The name by which it stands in the record, for messages.
            fields: The record's other fields as JSON values, by name and without nulls.
            threshold: From which score on a fact is cited, for records that say none; None for the service's
                own.
            scores: Whether each claim is scored, for records that do not say.

        Raises:
            RuleError: The record breaks a rule; the message says which and where.
        """
        ...

    def check_request(
        self, answer_text: str, facts: Sequence[tuple[str, Mapping[str, str]]], threshold: float | None
    ) -> bytes:
        """The request that checks an answer, claim by claim.

        Args:
            answer_text: The answer.
            facts: What it is checked against: texts, each with what is known of its source.
            threshold: From which score on a fact is cited; None for the service's own.

        Raises:
            RuleError: The check breaks a rule of the service.
        """
        ...

    def asked_check(self, request: bytes) -> AskedCheck:
        """What rows say of a request for a check."""
        ...

    def read_check(self, answer: Answer, answer_text: str, *, keep: bool) -> CheckResponse:
        """Read the response to a check.

        Args:
            answer: The response as it came, and how.
            answer_text: The answer that was checked.
            keep: Whether the whole response is wanted as JSON.
        """
        ...


@cache
def service_of(name: str, api_version: str) -> Service:
    """The service of a name, in a version of its API.

    Raises:
        ValueError: There is none.
    """
    if name not in SERVICES:
        raise ValueError(f"the service is {name!r}: give one of {', '.join(SERVICES)}")
    service: Service = _module_of(name).open_service(api_version)
    return service


def access_of(name: str, location: str) -> Access | None:
    """How a service of a name is reached from `projects/P/locations/L`, or from an empty location.

    None when the location is empty and the service must be asked in somebody's name.
    """
    access: Access | None = _module_of(name).access(location)
    return access


@cache
def check_service_of(name: str, api_version: str) -> CheckService:
    """As `service_of`, for a service that checks answers.

    Raises:
        ValueError: There is none, or it checks nothing.
    """
    service = service_of(name, api_version)
    if not isinstance(service, CheckService):
        raise ValueError(f"the service {name} has no method that checks answers: give {DISCOVERY_ENGINE}")
    return service


def stored_json(response: bytes) -> str | None:
    """A response that a ledger holds as JSON; None when it is no service's.

    A ledger says neither which service a response is of nor which version.
    """
    # Gemini's are text, which can be told for sure; bytes that look like a message may be anything.
    for name in reversed(SERVICES):
        text: str | None = _module_of(name).stored_json(response)
        if text is not None:
            return text
    return None


def _module_of(name: str) -> Any:
    return importlib.import_module(f"groundrows.schemas.{name}.service")
