"""Efficiency: what kernels reach of the data sheet's peaks, as forms with parameters fitted to measured times."""
