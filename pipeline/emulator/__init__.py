"""A local stand-in for the Grounded Generation API and for Gemini, with answers, a quota and faults."""
