"""How much memory: model shapes, GPUs, and the formulas of `pagefault calc`."""
