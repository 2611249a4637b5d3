"""Analysis: inverse questions, sensitivities, crossovers, and results side by side."""
