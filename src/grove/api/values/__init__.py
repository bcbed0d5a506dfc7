"""Parsers and formatters for values on the wire: durations, quantities, times and short texts."""
