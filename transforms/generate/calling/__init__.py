"""The calling itself: one event loop, and everything its calls pass through."""
