"""Plays step plans on a virtual clock with a cost model."""
