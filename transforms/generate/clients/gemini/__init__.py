"""The client of Gemini over REST, for the Agent Platform and the Developer API."""
