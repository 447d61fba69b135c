"""The ways to Gemini: REST, on the Agent Platform and the Developer API."""
