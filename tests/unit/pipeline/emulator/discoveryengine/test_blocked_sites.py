from __future__ import annotations

from groundrows.pipeline.emulator.answering.websearch import phishing_confidence
from groundrows.pipeline.emulator.discoveryengine.answers import may_show
from groundrows.pipeline.emulator.discoveryengine.messages import Request
from groundrows.schemas.discoveryengine.messages import request_class

DOMAINS = [f"site-{i}.example" for i in range(1000)]


def test_excluded_domains_are_left_out_whole() -> None:
    search = Request.GroundingSource.GoogleSearchSource(exclude_domains=["a.example"])
    assert not may_show(search, "a.example")
    assert may_show(search, "b.example")
    assert may_show(search, "a.example.org")


def test_the_lower_the_threshold_the_more_sites_are_blocked() -> None:
    kinds = Request.GroundingSource
    for kind in (kinds.GoogleSearchSource, kinds.EnterpriseWebRetrievalSource):
        shown = [
            sum(may_show(kind(blocking_confidence=threshold), domain) for domain in DOMAINS)
            for threshold in (30, 40, 50, 55, 60, 100, 0)
        ]
        assert shown == sorted(shown)
        assert 500 < shown[0] < 800
        assert shown[-2:] == [1000, 1000]


def test_a_threshold_blocks_from_itself_on() -> None:
    for domain in DOMAINS[:50]:
        confidence = phishing_confidence(domain)
        assert 0 <= confidence < 100
        for threshold in (30, 60):
            search = Request.GroundingSource.GoogleSearchSource(blocking_confidence=threshold)
            assert may_show(search, domain) == (confidence < threshold)


def test_v1_leaves_no_site_out() -> None:
    search = request_class("v1").GroundingSource.GoogleSearchSource()
    assert all(may_show(search, domain) for domain in DOMAINS)
