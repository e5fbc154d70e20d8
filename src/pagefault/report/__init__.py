"""Reads rows and events that others wrote; makes charts, the page, the pool played back, and traces."""
