"""What the operator shows of itself: metrics, events, log lines, probes and profiles."""
