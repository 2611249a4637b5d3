"""Phases: one forward pass of a deployment, with its three times and their derivation."""
