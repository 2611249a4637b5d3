"""Memory footprint: what is resident on an accelerator, what an engine allocates, and what fits."""
