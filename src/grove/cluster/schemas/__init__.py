"""Structural schemas: what objects of a custom kind are held to. No kinds, no requests here."""
