"""Gemini's `generateContent` on the emulator's REST port, in the forms of both places that serve it."""
