"""The local worker: pulls questions from Pub/Sub, asks them batch by batch, and acknowledges what is on disk.

Beam's own local runner acknowledges a message before it is processed, so it is not used for a subscription.
Here the graph of every run works off one batch of messages at a time, several beside each other; a batch's
rows get their final names, and only then are its messages acknowledged. A worker that is killed at any moment
loses nothing: what it had not acknowledged comes again, and the ledger answers what was asked before.
"""
