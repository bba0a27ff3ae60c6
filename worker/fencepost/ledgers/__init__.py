"""Where rows are kept; one file a store, one port for all."""
