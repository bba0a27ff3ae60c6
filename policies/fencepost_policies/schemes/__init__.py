"""How the ids of a source are ordered; one file a scheme."""
