"""The parts of the fuzz harness: random campaigns and calls, a plain model, and faults."""
