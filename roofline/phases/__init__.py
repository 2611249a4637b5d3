"""Phases: forward passes of a deployment, with their three times and derivations."""
