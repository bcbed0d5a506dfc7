"""Values on the wire: durations, quantities, times, and short texts."""
