"""Clients call a service that answers questions. They share one small interface (`base.py`)."""
