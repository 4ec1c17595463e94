"""Operations of webhooks."""
