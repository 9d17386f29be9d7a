"""Only imported: the benchmark hands disent tensors, so nothing here is called."""
