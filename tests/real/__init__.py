"""Real servers behind a real bridge: what comes out, held against what the servers emitted."""
