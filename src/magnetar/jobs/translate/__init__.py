"""The translation of acknowledgement states between clusters whose entries have no origin positions."""
