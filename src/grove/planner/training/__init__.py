"""Training sets: progress, restarts, deadlines, failure and its evidence."""
