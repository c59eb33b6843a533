"""A strategy and a sink that a pipeline file names."""

from latecomer import PaneShape, Sink, SinkLogic, Strategy


class Own(Strategy):
    patience: int = 1


class Board(Sink):
    target: str

    def logic(self, pipeline: str, shape: PaneShape) -> SinkLogic:
        raise AssertionError("nothing is run here")
