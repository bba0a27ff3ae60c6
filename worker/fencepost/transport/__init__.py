"""The only socket to a source."""
