"""The Grounded Generation API's own requests and answers, over gRPC and REST.

The folder of another API stands beside this one. It shares `answering/` and everything above: quota,
latency, faults, the call log and the REST server.
"""
