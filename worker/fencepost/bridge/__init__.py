"""Follow a source: connect, hold, judge, publish, advance."""
