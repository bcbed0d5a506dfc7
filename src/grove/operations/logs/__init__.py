"""Read and follow the logs of objects with several pods."""
