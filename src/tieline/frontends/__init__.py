"""Who asks: one module for each protocol that clients speak, on one HTTP port."""
