"""A run's rows as tables that are queried, for whatever shows or exports them."""
