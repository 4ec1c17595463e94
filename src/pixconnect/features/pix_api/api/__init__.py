"""Operations of pix api."""
