"""Shipped for testing: a broker in memory, and the simulator that plays whole days on it."""
