"""The local worker pulls questions from Pub/Sub, asks them batch by batch, and acknowledges what is on disk.

Beam's own local runner acknowledges a message before it is processed, so it is not used for a subscription.
Here each batch of messages goes through the same graph as any run, and several batches run side by side. The
worker acknowledges a batch's messages after the batch's rows have their final names. A worker that is killed
at any moment loses nothing: Pub/Sub delivers again what was not acknowledged, and the ledger, which stores
every response, answers what was asked before.
"""
