"""Grove: gangs of pods on Kubernetes, all or nothing."""

# Read by the build as well. Asking the installed package would take longer than the rest of `grove version`.
__version__ = "0.1.0.dev0"
