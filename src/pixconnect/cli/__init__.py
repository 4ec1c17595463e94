"""The operator and the integrator."""
