"""A server in Pub/Sub's place that knows every topic and subscription and says what it was told of them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.iam.v1 import iam_policy_pb2
from google.pubsub_v1.types import GetSubscriptionRequest, GetTopicRequest, Subscription, Topic

Said = grpc.StatusCode | list[str]


@contextmanager
def topic_stand_in(
    looked_up: grpc.StatusCode | None, granted: Said, subscription: grpc.StatusCode | None = None
) -> Iterator[str]:
    """The server's address, as `PUBSUB_EMULATOR_HOST` takes it.

    Args:
        looked_up: How looking the topic up fails, or None where it succeeds.
        granted: Which permissions the account has on it, or how asking for them fails.
        subscription: How looking a subscription up fails, or None where it succeeds.
    """

    def get_topic(request: Any, context: grpc.ServicerContext) -> Any:
        if looked_up is not None:
            context.abort(looked_up, "so it was told")
        return Topic(name=request.topic)

    def get_subscription(request: Any, context: grpc.ServicerContext) -> Any:
        if subscription is not None:
            context.abort(subscription, "so it was told")
        return Subscription(name=request.subscription, topic="projects/p/topics/of-the-subscription")

    def test_permissions(request: Any, context: grpc.ServicerContext) -> Any:
        if isinstance(granted, grpc.StatusCode):
            context.abort(granted, "so it was told")
        asked = list(request.permissions)
        return iam_policy_pb2.TestIamPermissionsResponse(
            permissions=[each for each in asked if each in granted]
        )

    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler(
                "google.pubsub.v1.Publisher",
                {
                    "GetTopic": grpc.unary_unary_rpc_method_handler(
                        get_topic, GetTopicRequest.deserialize, Topic.serialize
                    )
                },
            ),
            grpc.method_handlers_generic_handler(
                "google.pubsub.v1.Subscriber",
                {
                    "GetSubscription": grpc.unary_unary_rpc_method_handler(
                        get_subscription, GetSubscriptionRequest.deserialize, Subscription.serialize
                    )
                },
            ),
            grpc.method_handlers_generic_handler(
                "google.iam.v1.IAMPolicy",
                {
                    "TestIamPermissions": grpc.unary_unary_rpc_method_handler(
                        test_permissions,
                        iam_policy_pb2.TestIamPermissionsRequest.FromString,
                        iam_policy_pb2.TestIamPermissionsResponse.SerializeToString,
                    )
                },
            ),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()
