"""What a service answered, in a form that belongs to no service: what rows and checks are made of.

A service reads its own responses into these types and copies what it finds: what was not sent is None or
empty. The flattening judges what it gets: whether a score is one, and whether a cited chunk exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from groundrows.schemas.rows import Citation, FetchedUrl, Image, Retrieval, SafetyRating, Video

Span = tuple[int, int]
"""Start and end in characters (Unicode code points) of a text, the end exclusive."""


@dataclass(slots=True)
class Chunk:
    """A passage that an answer is supported by.

    Attributes:
        text: The passage; empty where the service quotes none.
        source: The service's own name for where the passage is from.
        uri: Its document's address.
        title: Its document's title.
        domain: Its document's domain.
        document_id: Its document's id in the store that was searched.
        page_identifier: Its page within the document.
        metadata: Everything that was said of its source, by name.
        index_in_stream: Its number in a streamed response.
        kind: What it is: `web`, `retrieved`, `maps`, `image` or `fact`; None where the service does not say.
        place_id: The place on a map that it tells of.
    """

    text: str
    source: str | None
    uri: str | None
    title: str | None
    domain: str | None
    document_id: str | None
    page_identifier: str | None
    metadata: dict[str, str]
    index_in_stream: int | None
    kind: str | None = None
    place_id: str | None = None


@dataclass(slots=True)
class Claim:
    """A stretch of an answer, and the chunks that support it.

    Attributes:
        text: Its wording.
        cited: Places of the chunks it cites in the candidate's `chunks`, as sent: some may not exist.
        score: How well it is supported, as sent.
        span: Where it stands in the candidate's text; None where the service does not say, and the
            flattening looks for the wording.
        chunk_scores: For each of `cited` how well that chunk supports the claim, where the service scores
            chunks rather than claims; empty where it does not.
    """

    text: str
    cited: Sequence[int]
    score: float | None
    span: Span | None = None
    chunk_scores: Sequence[float | None] = ()


@dataclass(slots=True)
class Candidate:
    """One answer of a response.

    Attributes:
        index: Its number in the response: candidates have the numbers from 0 on; see `numbers_of`.
        text: The answer; None when the candidate has no content at all.
        role: Who speaks, `model` as a rule.
        score: How well all of it is supported, as sent.
        chunks: The passages that support it.
        claims: Its claims, in the order in which they were sent.
        retrieval: What the search for passages said of itself; a prediction is as sent.
        queries: What was searched for on the web.
        suggestions_html: Search suggestions, which must be shown beside the answer.
        search_blob: The same for the vendor's own SDK.
        images: Images that came with it.
        videos: Videos that came with it.
        warnings: What was odd about it.
        finish_reason: Why it ends where it does, as the service names it.
        finish_message: The same in the service's words.
        retrieval_queries: What was searched for in stores of documents.
        billed_searches: How many of its searches are billed; None where the service does not bill them.
        thoughts: What the model thought on its way, where that was asked for.
        safety_ratings: How the service judged it.
        citations: Stretches that repeat a source word for word.
        urls: Addresses that were asked to be read.
        avg_logprobs: The mean of the logarithms of its tokens' probabilities.
        has_claims: Whether the service looks for claims in such an answer; if it does not, no share of it can
            be said to be supported.
        links_expire: Whether links in it stop working after a while; None leaves it to whether Google Search
            was asked.
    """

    index: int
    text: str | None
    role: str | None
    score: float | None
    chunks: Sequence[Chunk]
    claims: Sequence[Claim]
    retrieval: Sequence[Retrieval]
    queries: tuple[str, ...]
    suggestions_html: str | None
    search_blob: bytes | None
    images: tuple[Image, ...]
    videos: tuple[Video, ...]
    warnings: tuple[str, ...]
    finish_reason: str | None = None
    finish_message: str | None = None
    retrieval_queries: tuple[str, ...] = ()
    billed_searches: int | None = None
    thoughts: str | None = None
    safety_ratings: tuple[SafetyRating, ...] = ()
    citations: tuple[Citation, ...] = ()
    urls: tuple[FetchedUrl, ...] = ()
    avg_logprobs: float | None = None
    has_claims: bool = True
    links_expire: bool | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a response took, in tokens as the service counts them; None where it does not say.

    Attributes:
        prompt: Tokens of the request.
        answer: Tokens of the answers.
        thoughts: Tokens of the model's thoughts.
        tool: Tokens of what tools, such as a search, gave the model to read.
        cached: Those of the request that were cached.
        total: All that were counted.
        traffic_type: As which kind of traffic the call was served.
    """

    prompt: int | None = None
    answer: int | None = None
    thoughts: int | None = None
    tool: int | None = None
    cached: int | None = None
    total: int | None = None
    traffic_type: str | None = None


NO_USAGE = Usage()
"""The usage of a response that says nothing of it."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Why a response answers nothing.

    Attributes:
        code: A stable name in capitals.
        message: One sentence for a person: what, where, what to do.
        retryable: Whether the same request may be answered another time.
    """

    code: str
    message: str
    retryable: bool = False


@dataclass(slots=True)
class Response:
    """The response to one turn.

    Attributes:
        candidates: The answers; none when the service gave none.
        json: The whole response as JSON, if it was to be kept.
        warnings: What was odd about the response as a whole.
        unanswered: Why there is no answer, where the service says so; the candidates are none then.
        usage: What it took.
        model_version: The model that answered, as the service names it.
        response_id: The service's own id of the response.
    """

    candidates: Sequence[Candidate]
    json: str | None
    warnings: tuple[str, ...]
    unanswered: Unanswered | None = None
    usage: Usage = NO_USAGE
    model_version: str | None = None
    response_id: str | None = None


@dataclass(slots=True)
class CitedFact:
    """A passage that a check cites.

    Attributes:
        fact_index: Which fact of the request it is from; None where the service does not say.
        text: The passage.
        source: The service's own name for where it is from.
        uri: Its document's address.
        title: Its document's title.
        domain: Its document's domain.
        metadata: Everything that was said of its source, by name.
        fact_text: The whole fact's text, where it was sent and differs from the passage.
    """

    fact_index: int | None
    text: str
    source: str | None
    uri: str | None
    title: str | None
    domain: str | None
    metadata: dict[str, str]
    fact_text: str | None


@dataclass(slots=True)
class CheckedClaim:
    """A claim that a check found in an answer.

    Attributes:
        text: Its wording.
        span: Where it stands in the answer.
        check_required: Whether it says anything that needs support.
        score: How well it is supported, as sent.
        cited: Places of the facts it cites in the check's `cited`, as sent: some may not exist.
        warnings: What was odd about its place.
    """

    text: str
    span: Span | None
    check_required: bool | None
    score: float | None
    cited: Sequence[int]
    warnings: tuple[str, ...]


@dataclass(slots=True)
class CheckResponse:
    """What a check of an answer against facts came to.

    Attributes:
        score: How well all of the answer is supported, as sent.
        cited: The passages that claims cite.
        claims: The claims found in the answer.
        json: The whole response as JSON, if it was to be kept.
        warnings: What was odd about the response as a whole.
    """

    score: float | None
    cited: Sequence[CitedFact]
    claims: Sequence[CheckedClaim]
    json: str | None
    warnings: tuple[str, ...]


def numbers_of(sent: Sequence[int]) -> tuple[Sequence[int], tuple[tuple[str, ...], ...]]:
    """Number a response's candidates, given the indices that were sent with them.

    Indices that are distinct and leave no gap are kept. Others, which would give two candidates' rows the
    same ids, are replaced by the candidates' places.

    Returns:
        For each candidate its number and, where that is not the index it was sent with, a warning.
    """
    count = len(sent)
    if (count == 1 and sent[0] == 0) or sorted(sent) == list(range(count)):
        return sent, ((),) * count
    warnings = tuple(
        (
            f"The candidate's index is {index}; the {count} candidates of the response are numbered by "
            "position instead, as their indices are not distinct or leave gaps.",
        )
        for index in sent
    )
    return range(count), warnings
