"""HTTP client of model endpoints for agents and judges."""
