"""`grove rollout`: follow, list and undo updates."""
