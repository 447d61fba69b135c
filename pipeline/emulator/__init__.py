"""A local stand-in for the Grounded Generation API, over gRPC and REST, with answers, a quota and faults."""
