"""Nights that are killed at named and at random moments."""
