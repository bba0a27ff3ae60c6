"""What one signal of a connection testifies to; one file a witness."""
