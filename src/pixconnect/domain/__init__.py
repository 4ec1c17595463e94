"""The rules of Pix and of money; pure, never waits."""
