"""What was paid for, kept: every response the moment it arrives."""
