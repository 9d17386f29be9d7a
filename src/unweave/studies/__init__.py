"""Studies: pure functions from a name to a list of runs, and one runner that trains, scores and tabulates them."""
