"""Decoding of requests and encoding of responses."""
