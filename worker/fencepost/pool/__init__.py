"""Work on events: fetch, plan, run, settle; and carry out answers."""
