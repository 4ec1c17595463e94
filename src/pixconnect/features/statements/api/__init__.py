"""Operations of statements."""
