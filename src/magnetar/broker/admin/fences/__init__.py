"""Operations on the migration fences of topics."""
