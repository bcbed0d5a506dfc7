"""The commands of `grove`, one module each: options and help. What a command does is in its own package."""
