"""What goes beyond the paper; `visr.agents.visr` imports nothing from here."""
