"""The HTTPS front end of the embedded API server, on loopback only: for kubectl and other local clients."""
