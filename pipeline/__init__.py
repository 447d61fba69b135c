"""The program: flags, graph, sources, sinks, accounting and the local stand-in for the service."""
