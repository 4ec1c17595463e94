"""Faces: the interfaces of institutions, by their profiles, over the same use cases as the other doors. Sandbox mode only."""
