"""Limits held against what a reply plans: caps, floors, losses, durations, budgets, and their arithmetic."""
