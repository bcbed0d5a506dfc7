"""Talking to an API server: transport, client, list + watch, cache. Knows nothing of gangs."""
