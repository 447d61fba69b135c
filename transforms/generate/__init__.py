"""Calling the service: pacing, retries, ledger, budget and clients.

Only the module `stage` uses Beam. The others are plain Python with asyncio and are tested without Beam.
"""
