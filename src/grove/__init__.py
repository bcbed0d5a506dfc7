"""Grove: gangs of pods on Kubernetes, all or nothing."""
