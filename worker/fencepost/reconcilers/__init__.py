"""Reconcilers that are ready to be registered, for servers whose state can be asked."""
