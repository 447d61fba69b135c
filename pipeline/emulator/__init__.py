"""A local stand-in for the Grounded Generation API: a real gRPC server with its answers, quota and faults."""
