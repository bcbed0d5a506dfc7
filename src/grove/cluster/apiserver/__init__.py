"""The embedded API server: `api_server.py` routes a request to its verb."""
