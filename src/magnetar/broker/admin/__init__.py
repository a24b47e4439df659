"""Operations and statistics of a broker for its admin API."""
