"""From rows to batches: in which order rows come, and what a batch carries of them."""
