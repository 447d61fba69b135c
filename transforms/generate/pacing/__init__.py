"""How fast calls may leave: one small interface, four ways to share a limit."""
