"""What a kind of server says and where it says it; one file a dialect."""
