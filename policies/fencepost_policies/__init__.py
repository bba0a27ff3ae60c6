"""Every decision as a pure function: no IO, no clock, no chance, no log."""
