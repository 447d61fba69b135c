"""Calling the service: pacing, retries, ledger, budget and clients.

Everything here but `stage` is plain Python on asyncio and runs, and is tested, without Beam.
"""
