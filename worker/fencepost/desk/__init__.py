"""The confirmation desk: questions that only a person or a checker can answer, and the answers."""
