"""A strategy that a pipeline file names."""

from latecomer import Strategy


class Own(Strategy):
    patience: int = 1
