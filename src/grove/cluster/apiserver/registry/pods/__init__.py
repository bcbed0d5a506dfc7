"""Strategy of pods: defaults, validation, and what an update may change."""
