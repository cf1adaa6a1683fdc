"""The last checkpoint of a run, and whether a new attempt may begin with it."""

from tieline.wire.cursor._pb.conversation_pb2 import ConversationStateStructure


class LastCheckpoint:
    """The newest checkpoint that the service sent.

    A checkpoint is usable if it contains everything that the client has answered. One that was taken before a call was
    made, or before its result arrived, would have the call made again.
    """

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.is_usable = False
        self._may_miss_a_result = False
        """Whether the client has answered a call that the service may not have recorded yet."""

    def inherit(self, before: "LastCheckpoint") -> None:
        """Begin with the checkpoint of the attempt before."""
        self.data = before.data
        self.is_usable = before.is_usable

    def call_made(self) -> None:
        """Mark the checkpoint as out of date: a call was made since."""
        self.is_usable = False

    def call_answered(self) -> None:
        """Distrust checkpoints until one has no pending calls: it may have been taken before the result."""
        self._may_miss_a_result = True

    def update(self, state: ConversationStateStructure, *, has_open_calls: bool) -> None:
        """Keep a new checkpoint. Fields that our schema does not know are kept too."""
        self.data = state.SerializeToString()
        if not state.pending_tool_calls:
            self._may_miss_a_result = False
        self.is_usable = not (has_open_calls or self._may_miss_a_result)
