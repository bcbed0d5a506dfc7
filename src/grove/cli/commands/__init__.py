"""The commands of `grove`, one module each: options and help. Bigger commands have their own package."""
