"""Storage of the embedded cluster: objects and revisions in memory, and the log on disk."""
