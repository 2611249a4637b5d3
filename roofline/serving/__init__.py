"""Serving: what users see of a deployment.  The only model of serving; everything above rests on it."""
